import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, hidden, heads, kv_heads, head_dim, eps):
        super().__init__()
        self.eps = eps
        self.norm_weight = nn.Parameter(1.0 + 0.1 * torch.randn(hidden).to(torch.bfloat16))
        self.qkv_proj = nn.Linear(hidden, (heads + 2 * kv_heads) * head_dim, bias=False, dtype=torch.bfloat16)

    def forward(self, x, dq, dk, dv, d_residual):
        dqkv = torch.cat([g.transpose(1, 2).flatten(2) for g in (dq, dk, dv)], dim=-1)
        dn = torch.matmul(dqkv, self.qkv_proj.weight).float()
        xf = x.float()
        r = torch.rsqrt(xf.pow(2).mean(-1, keepdim=True) + self.eps)
        xhat = xf * r
        d_weight = (dn * xhat).sum(dim=(0, 1))
        g = dn * self.norm_weight.float()
        dx = r * (g - xhat * (g * xhat).mean(-1, keepdim=True))
        return dx.to(x.dtype) + d_residual, d_weight.to(x.dtype)


def get_inputs():
    return [
        torch.randn(2, 2048, 4096, dtype=torch.bfloat16),
        torch.randn(2, 32, 2048, 128, dtype=torch.bfloat16),
        torch.randn(2, 8, 2048, 128, dtype=torch.bfloat16),
        torch.randn(2, 8, 2048, 128, dtype=torch.bfloat16),
        torch.randn(2, 2048, 4096, dtype=torch.bfloat16),
    ]


def get_init_inputs():
    return [4096, 32, 8, 128, 1e-5]
