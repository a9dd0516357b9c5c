import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """OLMo-2 style tail of a layer for one decoded token: norm after the attention output, SwiGLU without pre-norm, norm after it, residuals."""

    def __init__(self, dim, inter):
        super().__init__()
        self.dim = dim
        self.o_proj = nn.Linear(dim, dim, bias=False)
        self.gate = nn.Linear(dim, inter, bias=False)
        self.up = nn.Linear(dim, inter, bias=False)
        self.down = nn.Linear(inter, dim, bias=False)
        self.post_attn = nn.Parameter(1.0 + 0.1 * torch.randn(dim))
        self.post_mlp = nn.Parameter(1.0 + 0.1 * torch.randn(dim))
        self.to(torch.bfloat16)

    def norm(self, x, w):
        v = x.float()
        v = v * torch.rsqrt(v.square().mean(-1, keepdim=True) + 1e-6)
        return (w.float() * v).to(x.dtype)

    def forward(self, x, ctx):
        h = x + self.norm(self.o_proj(ctx), self.post_attn)
        m = self.down(F.silu(self.gate(h)) * self.up(h))
        return h + self.norm(m, self.post_mlp)


def get_inputs():
    return [torch.randn(1, 2048).to(torch.bfloat16), torch.randn(1, 2048).to(torch.bfloat16)]


def get_init_inputs():
    return [2048, 8192]
