import math
import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS, INNER, STATE, DT_RANK, DIM = 32, 8192, 16, 256, 4096


def rms(x):
    xf = x.float()
    return (xf * torch.rsqrt(xf.square().mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


class Model(nn.Module):
    """Falcon-Mamba decode, one step: joint projection to dt, B, C (each RMS-normed), dt projection with softplus,
    one update of the float32 state, read-out by C, z gate and output projection."""

    def __init__(self, inner, state, dt_rank, dim):
        super().__init__()
        self.x_proj = nn.Linear(inner, dt_rank + 2 * state, bias=False)
        self.dt_proj = nn.Linear(dt_rank, inner)
        nn.init.uniform_(self.dt_proj.bias, -5.0, -2.0)
        self.out_proj = nn.Parameter(torch.randn(dim, inner) / math.sqrt(inner))
        self.to(torch.bfloat16)
        self.a_log = nn.Parameter(torch.log(torch.arange(1, state + 1).float()).repeat(inner, 1))
        self.d = nn.Parameter(torch.ones(inner))
        self.sizes = [dt_rank, state, state]

    def forward(self, xz, h):
        x, z = xz.chunk(2, dim=-1)
        dt, b, c = (rms(t) for t in self.x_proj(x).split(self.sizes, dim=-1))
        dt = F.softplus(self.dt_proj(dt).float())
        da = torch.exp(dt.unsqueeze(-1) * -torch.exp(self.a_log))
        h = h * da + (dt * x.float()).unsqueeze(-1) * b.float().unsqueeze(1)
        y = torch.bmm(h, c.float().unsqueeze(-1)).squeeze(-1) + self.d * x.float()
        y = y.to(x.dtype) * F.silu(z)
        return F.linear(y, self.out_proj), h


def get_inputs():
    return [torch.randn(ROWS, 2 * INNER, dtype=torch.bfloat16), 0.3 * torch.randn(ROWS, INNER, STATE)]


def get_init_inputs():
    return [INNER, STATE, DT_RANK, DIM]
