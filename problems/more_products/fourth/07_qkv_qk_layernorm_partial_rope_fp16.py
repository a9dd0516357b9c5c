import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH, SEQ, DIM, Q_HEADS, KV_HEADS, HEAD, ROT = 2, 1024, 2560, 32, 8, 80, 32


class Model(nn.Module):
    """Joint QKV projection (grouped queries), per-head LayerNorm of q and k, interleaved rotary embedding on the
    first 32 of 80 features; outputs laid out as (batch, heads, seq, head) with v as a plain view."""

    def __init__(self, dim, q_heads, kv_heads, head, rot, base):
        super().__init__()
        self.qkv = nn.Linear(dim, (q_heads + 2 * kv_heads) * head)
        self.q_norm = nn.LayerNorm(head)
        self.k_norm = nn.LayerNorm(head, bias=False)
        self.nq, self.nk, self.head, self.rot = q_heads, kv_heads, head, rot
        self.to(torch.float16)
        self.register_buffer("inv_freq", base ** (-torch.arange(0, rot, 2).float() / rot))

    def rotate(self, x, cos, sin):
        r, rest = x[..., : self.rot].float(), x[..., self.rot :]
        even, odd = r[..., 0::2], r[..., 1::2]
        r = torch.stack((even * cos - odd * sin, odd * cos + even * sin), dim=-1).flatten(-2)
        return torch.cat((r.to(x.dtype), rest), dim=-1)

    def forward(self, x, positions):
        b, s, _ = x.shape
        heads = self.qkv(x).view(b, s, self.nq + 2 * self.nk, self.head).transpose(1, 2)
        q, k, v = heads.split([self.nq, self.nk, self.nk], dim=1)
        ang = positions.float()[:, None, :, None] * self.inv_freq
        cos, sin = ang.cos(), ang.sin()
        return self.rotate(self.q_norm(q), cos, sin), self.rotate(self.k_norm(k), cos, sin), v


def get_inputs():
    positions = torch.arange(SEQ)[None, :] + torch.randint(0, 2000, (BATCH, 1))
    return [torch.randn(BATCH, SEQ, DIM, dtype=torch.float16), positions]


def get_init_inputs():
    return [DIM, Q_HEADS, KV_HEADS, HEAD, ROT, 10000.0]
