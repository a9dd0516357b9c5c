"""Decode step: joined qkv linear with bias, RMS norm of each head of q and k, rotary at gathered positions."""
import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS, D, QH, KVH, HD, MAXPOS = 48, 2880, 64, 8, 64, 8192

class Model(nn.Module):
    def __init__(self, d, qh, kvh, hd, maxpos):
        super().__init__()
        self.qh, self.kvh, self.hd = qh, kvh, hd
        n = (qh + 2 * kvh) * hd
        self.weight = nn.Parameter((torch.randn(n, d) * d ** -0.5).bfloat16())
        self.bias = nn.Parameter((0.1 * torch.randn(n)).bfloat16())
        self.q_norm = nn.Parameter((1 + 0.1 * torch.randn(hd)).bfloat16())
        self.k_norm = nn.Parameter((1 + 0.1 * torch.randn(hd)).bfloat16())
        inv = 150000.0 ** (-torch.arange(0, hd, 2).float() / hd)
        ang = torch.arange(maxpos).float()[:, None] * inv
        self.register_buffer("cos", ang.cos())
        self.register_buffer("sin", ang.sin())

    def rope_norm(self, x, w, cos, sin):
        h = x.float()
        h = h * torch.rsqrt(h.square().mean(-1, keepdim=True) + 1e-5) * w.float()
        a, b = h.chunk(2, dim=-1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1).to(x.dtype)

    def forward(self, x, positions):
        qkv = F.linear(x, self.weight, self.bias).view(x.shape[0], -1, self.hd)
        q, k, v = qkv.split([self.qh, self.kvh, self.kvh], dim=1)
        cos = self.cos[positions].unsqueeze(1)
        sin = self.sin[positions].unsqueeze(1)
        return self.rope_norm(q, self.q_norm, cos, sin), self.rope_norm(k, self.k_norm, cos, sin), v

def get_inputs():
    return [torch.randn(ROWS, D).bfloat16(), torch.randint(0, MAXPOS, (ROWS,))]

def get_init_inputs():
    return [D, QH, KVH, HD, MAXPOS]
