import torch
import torch.nn as nn


class Model(nn.Module):
    """First half of one decoding step of a grouped-query attention layer (the shape of gpt-oss): RMS norm, one packed
    QKV projection with bias, rotary positions (half split), then the new keys and values are written in place into the
    paged key-value cache at the given slots. Returns the rotated queries; both caches are changed."""

    def __init__(self, dim, q_heads, kv_heads, head_dim, page, theta):
        super().__init__()
        self.hq, self.hk, self.d, self.page = q_heads, kv_heads, head_dim, page
        self.norm = nn.Parameter(1 + 0.1 * torch.randn(dim, dtype=torch.float32))
        self.qkv = nn.Linear(dim, (q_heads + 2 * kv_heads) * head_dim, dtype=torch.bfloat16)
        inv = theta ** (-torch.arange(0, head_dim, 2).float() / head_dim)
        self.register_buffer("inv_freq", inv)

    def rotate(self, t, cos, sin):
        a, b = t.float().chunk(2, dim=-1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1).to(t.dtype)

    def forward(self, x, positions, slots, k_cache, v_cache):
        rows = x.shape[0]
        xf = x.float()
        h = (xf * torch.rsqrt(xf.pow(2).mean(-1, keepdim=True) + 1e-5) * self.norm).to(x.dtype)
        q, k, v = self.qkv(h).split([self.hq * self.d, self.hk * self.d, self.hk * self.d], dim=-1)

        angle = positions[:, None, None].float() * self.inv_freq
        cos, sin = angle.cos(), angle.sin()
        q = self.rotate(q.reshape(rows, self.hq, self.d), cos, sin)
        k = self.rotate(k.reshape(rows, self.hk, self.d), cos, sin)

        block, offset = slots // self.page, slots % self.page
        k_cache[block, offset] = k
        v_cache[block, offset] = v.reshape(rows, self.hk, self.d)
        return q


ROWS, DIM, Q_HEADS, KV_HEADS, HEAD_DIM = 13, 2880, 64, 8, 64
BLOCKS, PAGE = 300, 16


def get_inputs():
    return [
        torch.randn(ROWS, DIM).to(torch.bfloat16),
        torch.randint(0, 4096, (ROWS,)),
        torch.randperm(BLOCKS * PAGE)[:ROWS],
        torch.randn(BLOCKS, PAGE, KV_HEADS, HEAD_DIM).to(torch.bfloat16),
        torch.randn(BLOCKS, PAGE, KV_HEADS, HEAD_DIM).to(torch.bfloat16),
    ]


def get_init_inputs():
    return [DIM, Q_HEADS, KV_HEADS, HEAD_DIM, PAGE, 150000.0]
