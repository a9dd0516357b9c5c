import torch
import torch.nn as nn
import torch.nn.functional as F


class RMSNorm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.scale = nn.Parameter(1.0 + 0.1 * torch.randn(dim).to(torch.bfloat16))

    def forward(self, x):
        xf = x.float()
        r = torch.rsqrt(torch.mean(xf * xf, dim=-1, keepdim=True) + 1e-6)
        return (xf * r).to(x.dtype) * self.scale


class Model(nn.Module):
    def __init__(self, hidden, heads, mlp_dim):
        super().__init__()
        self.heads, self.hidden, self.mlp_dim = heads, hidden, mlp_dim
        self.norm = nn.LayerNorm(hidden, elementwise_affine=False, eps=1e-6)
        self.linear1 = nn.Linear(hidden, 3 * hidden + mlp_dim, dtype=torch.bfloat16)
        self.q_norm = RMSNorm(hidden // heads)
        self.k_norm = RMSNorm(hidden // heads)

    def forward(self, x, shift, scale):
        x_mod = (1 + scale[:, None]) * self.norm(x) + shift[:, None]
        qkv, mlp = torch.split(self.linear1(x_mod), [3 * self.hidden, self.mlp_dim], dim=-1)
        B, L, _ = qkv.shape
        q, k, v = qkv.view(B, L, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        q, k = self.q_norm(q), self.k_norm(k)
        return q, k, v.contiguous(), F.gelu(mlp, approximate="tanh")


def get_inputs():
    return [
        torch.randn(1, 4608, 3072, dtype=torch.bfloat16),
        torch.randn(1, 3072, dtype=torch.bfloat16),
        torch.randn(1, 3072, dtype=torch.bfloat16),
    ]


def get_init_inputs():
    return [3072, 24, 12288]
