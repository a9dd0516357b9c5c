import math
import torch
import torch.nn as nn

TOKENS, D_IN, D_OUT = 4096, 2048, 5632
E4M3_MAX, E5M2_MAX = 448.0, 57344.0


class Model(nn.Module):
    """Transformer-Engine style fp8 linear with delayed scaling: forward in e4m3, both gradients with dy in e5m2, new amaxes."""

    def __init__(self, d_in, d_out):
        super().__init__()
        self.weight = nn.Parameter((torch.randn(d_out, d_in) / math.sqrt(d_in)).to(torch.bfloat16))
        self.bias = nn.Parameter((0.1 * torch.randn(d_out)).to(torch.bfloat16))

    def cast_e4m3(self, t, scale):
        q = (t.float() * scale).clamp(-E4M3_MAX, E4M3_MAX).to(torch.float8_e4m3fn)
        return q.to(torch.bfloat16)

    def cast_e5m2(self, t, scale):
        q = (t.float() * scale).clamp(-E5M2_MAX, E5M2_MAX).to(torch.float8_e5m2)
        return q.to(torch.bfloat16)

    def forward(self, x, dy, scale_x, scale_w, scale_dy):
        xq = self.cast_e4m3(x, scale_x)
        wq = self.cast_e4m3(self.weight, scale_w)
        gq = self.cast_e5m2(dy, scale_dy)
        y = (xq @ wq.t()).float() / (scale_x * scale_w) + self.bias.float()
        dx = (gq @ wq).float() / (scale_dy * scale_w)
        dw = (gq.t() @ xq).float() / (scale_dy * scale_x)
        db = dy.float().sum(0)
        amax = torch.stack([x.abs().amax(), self.weight.abs().amax(), dy.abs().amax()]).float()
        return y.to(x.dtype), dx.to(x.dtype), dw, db, amax


def get_inputs():
    return [
        torch.randn(TOKENS, D_IN, dtype=torch.bfloat16),
        0.05 * torch.randn(TOKENS, D_OUT, dtype=torch.bfloat16),
        torch.tensor(E4M3_MAX / 5.0),
        torch.tensor(E4M3_MAX / (5.5 / math.sqrt(D_IN))),
        torch.tensor(E5M2_MAX / 0.3),
    ]


def get_init_inputs():
    return [D_IN, D_OUT]
