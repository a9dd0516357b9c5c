import math
import torch
import torch.nn as nn

BATCH, SEQ, DIM = 4, 1024, 1152


class Model(nn.Module):
    """Hand-written backward of PixArt's join y = x + gate * (a Wo + b), n = LN(y) * (1 + scale) + shift, seven gradients."""

    def __init__(self, dim):
        super().__init__()
        self.w_o = nn.Parameter(torch.randn(dim, dim) / math.sqrt(dim))
        self.b_o = nn.Parameter(0.1 * torch.randn(dim))
        self.to(torch.bfloat16)

    def forward(self, x, a, gate, scale, dy, dn):
        proj = (a @ self.w_o + self.b_o).float()
        y = x.float() + gate[:, None].float() * proj
        mean = y.mean(-1, keepdim=True)
        rstd = torch.rsqrt((y - mean).pow(2).mean(-1, keepdim=True) + 1e-6)
        yhat = (y - mean) * rstd
        dnf = dn.float()
        d_shift = dnf.sum(1)
        d_scale = (dnf * yhat).sum(1)
        dh = dnf * (1.0 + scale[:, None].float())
        d_x = dy.float() + rstd * (
            dh - dh.mean(-1, keepdim=True) - yhat * (dh * yhat).mean(-1, keepdim=True)
        )
        d_gate = (d_x * proj).sum(1)
        d_proj = (d_x * gate[:, None].float()).to(a.dtype)
        d_a = d_proj @ self.w_o.t()
        flat = d_proj.reshape(-1, d_proj.shape[-1])
        d_w = a.reshape(-1, a.shape[-1]).t() @ flat
        d_b = flat.float().sum(0)
        return d_x.to(x.dtype), d_a, d_w, d_b, d_gate, d_scale, d_shift


def get_inputs():
    return [
        torch.randn(BATCH, SEQ, DIM, dtype=torch.bfloat16),
        torch.randn(BATCH, SEQ, DIM, dtype=torch.bfloat16),
        0.5 * torch.randn(BATCH, DIM, dtype=torch.bfloat16),
        0.3 * torch.randn(BATCH, DIM, dtype=torch.bfloat16),
        0.1 * torch.randn(BATCH, SEQ, DIM, dtype=torch.bfloat16),
        0.1 * torch.randn(BATCH, SEQ, DIM, dtype=torch.bfloat16),
    ]


def get_init_inputs():
    return [DIM]
