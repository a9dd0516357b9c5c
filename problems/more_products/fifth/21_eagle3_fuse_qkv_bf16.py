import math
import torch
import torch.nn as nn

ROWS, DIM, HEADS, KV_HEADS, HEAD_DIM = 60, 4096, 32, 8, 128


class Model(nn.Module):
    """EAGLE-3 draft head on a 60-node token tree: fuse three layers' features, norm and join with embeddings, QKV, rotary."""

    def __init__(self, dim, heads, kv_heads, head_dim):
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = heads, kv_heads, head_dim
        self.fc = nn.Parameter(torch.randn(dim, 3 * dim) / math.sqrt(3 * dim))
        self.hidden_norm = nn.Parameter(1.0 + 0.1 * torch.randn(dim))
        self.input_norm = nn.Parameter(1.0 + 0.1 * torch.randn(dim))
        self.qkv = nn.Parameter(torch.randn((heads + 2 * kv_heads) * head_dim, 2 * dim) / math.sqrt(2 * dim))
        self.to(torch.bfloat16)

    def rms(self, x, w):
        xf = x.float()
        return w * (xf * torch.rsqrt(xf.pow(2).mean(-1, keepdim=True) + 1e-5)).to(x.dtype)

    def rope(self, x, cos, sin):
        x1, x2 = x.chunk(2, dim=-1)
        return x * cos[:, None] + torch.cat([-x2, x1], dim=-1) * sin[:, None]

    def forward(self, features, embeds, cos, sin):
        hidden = features @ self.fc.t()
        joined = torch.cat([self.rms(embeds, self.input_norm), self.rms(hidden, self.hidden_norm)], dim=-1)
        qkv = (joined @ self.qkv.t()).view(joined.shape[0], -1, self.head_dim)
        q, k, v = qkv.split([self.heads, self.kv_heads, self.kv_heads], dim=1)
        return hidden, self.rope(q, cos, sin), self.rope(k, cos, sin), v


def get_inputs():
    half = HEAD_DIM // 2
    pos = 700 + torch.randint(0, 8, (ROWS,)).sort().values.float()
    ang = pos[:, None] * 500000.0 ** (-torch.arange(half) / half)
    ang = torch.cat([ang, ang], dim=-1)
    return [
        torch.randn(ROWS, 3 * DIM, dtype=torch.bfloat16),
        (0.05 * torch.randn(ROWS, DIM)).to(torch.bfloat16),
        torch.cos(ang).to(torch.bfloat16),
        torch.sin(ang).to(torch.bfloat16),
    ]


def get_init_inputs():
    return [DIM, HEADS, KV_HEADS, HEAD_DIM]
