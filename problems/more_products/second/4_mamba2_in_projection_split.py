import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, d_model, d_inner, n_groups, d_state, n_heads):
        super().__init__()
        self.sizes = [d_inner, d_inner + 2 * n_groups * d_state, n_heads]
        self.in_proj = nn.Linear(d_model, sum(self.sizes), bias=False, dtype=torch.bfloat16)
        self.dt_bias = nn.Parameter(torch.randn(n_heads) - 4.0)
        self.A_log = nn.Parameter(torch.log(torch.rand(n_heads) * 15 + 1))

    def forward(self, u):
        zxbcdt = self.in_proj(u)
        z, xBC, dt = torch.split(zxbcdt, self.sizes, dim=-1)
        dt = F.softplus(dt.float() + self.dt_bias).clamp(min=1e-3, max=0.1)
        dA = dt * -torch.exp(self.A_log)
        return F.silu(z), xBC.transpose(1, 2).contiguous(), dt, dA.transpose(1, 2)


def get_inputs():
    return [torch.randn(4, 2048, 2560, dtype=torch.bfloat16)]


def get_init_inputs():
    return [2560, 5120, 1, 128, 80]
