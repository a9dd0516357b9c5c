import math
import torch
import torch.nn as nn

BATCH, TOKENS, DIM, FFN = 24, 197, 512, 3072


class Model(nn.Module):
    """Hand-written backward of the gMLP spatial gating unit and its output layer:
    y = (u * (S layernorm(v) + b)) Wo with u, v the halves of the joint hidden tensor."""

    def __init__(self, tokens, dim, ffn):
        super().__init__()
        half = ffn // 2
        self.s = nn.Parameter(torch.randn(tokens, tokens) / tokens)
        self.sb = nn.Parameter(1.0 + 0.02 * torch.randn(tokens))
        self.gamma = nn.Parameter(1.0 + 0.1 * torch.randn(half))
        self.beta = nn.Parameter(0.1 * torch.randn(half))
        self.wo = nn.Parameter(torch.randn(half, dim) / math.sqrt(half))
        self.to(torch.bfloat16)

    def forward(self, h, dy):
        u, v = h.chunk(2, dim=-1)
        vf = v.float()
        var, mean = torch.var_mean(vf, dim=-1, keepdim=True, correction=0)
        rstd = torch.rsqrt(var + 1e-5)
        xhat = (vf - mean) * rstd
        vn = (xhat * self.gamma.float() + self.beta.float()).to(h.dtype)
        gate = torch.matmul(self.s, vn) + self.sb[:, None]
        out = u * gate
        d_out = dy @ self.wo.t()
        d_wo = out.flatten(0, 1).t() @ dy.flatten(0, 1)
        du, dgate = d_out * gate, d_out * u
        d_s = torch.einsum("bic,bjc->ij", dgate, vn)
        dvn = torch.matmul(self.s.t(), dgate).float()
        g = dvn * self.gamma.float()
        dv = rstd * (g - g.mean(-1, keepdim=True) - xhat * (g * xhat).mean(-1, keepdim=True))
        dh = torch.cat((du, dv.to(h.dtype)), dim=-1)
        return dh, d_s, dgate.float().sum((0, 2)), (dvn * xhat).sum((0, 1)), dvn.sum((0, 1)), d_wo


def get_inputs():
    return [
        torch.randn(BATCH, TOKENS, FFN, dtype=torch.bfloat16),
        0.5 * torch.randn(BATCH, TOKENS, DIM, dtype=torch.bfloat16),
    ]


def get_init_inputs():
    return [TOKENS, DIM, FFN]
