import torch
import torch.nn as nn
import torch.nn.functional as F


def rms(x, w, eps):
    xf = x.float()
    xf = xf * torch.rsqrt(xf.pow(2).mean(-1, keepdim=True) + eps)
    return (xf * w.float()).to(x.dtype)


def rotate_half(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


class Model(nn.Module):
    """Pre-attention part of a decoder layer: input RMSNorm, packed QKV projection,
    per-head QK RMSNorm, rotary embedding. Returns q, k, v in (B, H, T, D)."""

    def __init__(self, hidden, n_q, n_kv, head_dim, eps):
        super().__init__()
        self.n_q, self.n_kv, self.hd, self.eps = n_q, n_kv, head_dim, eps
        self.in_norm = nn.Parameter((1 + 0.1 * torch.randn(hidden)).to(torch.bfloat16))
        self.q_norm = nn.Parameter((1 + 0.1 * torch.randn(head_dim)).to(torch.bfloat16))
        self.k_norm = nn.Parameter((1 + 0.1 * torch.randn(head_dim)).to(torch.bfloat16))
        self.qkv = nn.Linear(hidden, (n_q + 2 * n_kv) * head_dim, bias=False).to(torch.bfloat16)

    def forward(self, x, cos, sin):
        B, T, _ = x.shape
        y = self.qkv(rms(x, self.in_norm, self.eps))
        q, k, v = y.split([self.n_q * self.hd, self.n_kv * self.hd, self.n_kv * self.hd], dim=-1)
        q = rms(q.view(B, T, self.n_q, self.hd), self.q_norm, self.eps).transpose(1, 2)
        k = rms(k.view(B, T, self.n_kv, self.hd), self.k_norm, self.eps).transpose(1, 2)
        v = v.view(B, T, self.n_kv, self.hd).transpose(1, 2)
        c, s = cos[None, None], sin[None, None]
        q = q * c + rotate_half(q) * s
        k = k * c + rotate_half(k) * s
        return q, k, v


B, T, HID, NQ, NKV, HD = 2, 1024, 2048, 16, 4, 128


def get_inputs():
    inv = 1.0 / (1000000.0 ** (torch.arange(0, HD, 2).float() / HD))
    ang = torch.outer(torch.arange(T).float(), inv)
    ang = torch.cat((ang, ang), dim=-1)
    return [
        torch.randn(B, T, HID).to(torch.bfloat16),
        ang.cos().to(torch.bfloat16),
        ang.sin().to(torch.bfloat16),
    ]


def get_init_inputs():
    return [HID, NQ, NKV, HD, 1e-6]
