import math
import torch
import torch.nn as nn

TOKENS, D_INNER, DIM, GROUPS = 4096, 5120, 2560, 8


class Model(nn.Module):
    """Hand-written backward of Mamba-2's tail, out_proj(group_rms(y * silu(z)) * w): dy, dz, dw and d_out_proj."""

    def __init__(self, d_inner, dim, groups):
        super().__init__()
        self.groups = groups
        self.norm_weight = nn.Parameter(1.0 + 0.1 * torch.randn(d_inner))
        self.out_proj = nn.Parameter(torch.randn(dim, d_inner) / math.sqrt(d_inner))
        self.to(torch.bfloat16)

    def forward(self, y, z, dout):
        t = y.shape[0]
        yf, zf = y.float(), z.float()
        sig = torch.sigmoid(zf)
        gate = zf * sig
        u = (yf * gate).view(t, self.groups, -1)
        rstd = torch.rsqrt(u.pow(2).mean(-1, keepdim=True) + 1e-5)
        uhat = u * rstd
        w = self.norm_weight.float().view(1, self.groups, -1)
        n = (uhat * w).view(t, -1).to(y.dtype)

        d_proj = dout.t() @ n
        dn = (dout @ self.out_proj).float().view(t, self.groups, -1)
        d_w = (dn * uhat).sum(0).reshape(-1)
        dnw = dn * w
        du = rstd * (dnw - uhat * (dnw * uhat).mean(-1, keepdim=True))
        du = du.view(t, -1)
        d_y = du * gate
        d_z = du * yf * (sig + gate * (1.0 - sig))
        return d_y.to(y.dtype), d_z.to(y.dtype), d_w.to(y.dtype), d_proj


def get_inputs():
    return [
        torch.randn(TOKENS, D_INNER, dtype=torch.bfloat16),
        torch.randn(TOKENS, D_INNER, dtype=torch.bfloat16),
        0.1 * torch.randn(TOKENS, DIM, dtype=torch.bfloat16),
    ]


def get_init_inputs():
    return [D_INNER, DIM, GROUPS]
