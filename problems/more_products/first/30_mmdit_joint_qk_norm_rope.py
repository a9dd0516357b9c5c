import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        kw = dict(dtype=torch.bfloat16)
        self.h, self.d = heads, dim // heads
        self.img = nn.Linear(dim, 3 * dim, **kw)
        self.txt = nn.Linear(dim, 3 * dim, **kw)
        self.gains = nn.Parameter((1 + 0.1 * torch.randn(4, dim // heads)).bfloat16())

    def qkv(self, lin, x, gq, gk):
        q, k, v = lin(x).view(*x.shape[:2], 3, self.h, self.d).permute(2, 0, 3, 1, 4).unbind(0)
        return F.rms_norm(q, (self.d,), gq, 1e-6), F.rms_norm(k, (self.d,), gk, 1e-6), v

    def rope(self, x, cos, sin):
        a, b = x.float().unflatten(-1, (-1, 2)).unbind(-1)
        return torch.stack((a * cos - b * sin, a * sin + b * cos), dim=-1).flatten(-2).to(x.dtype)

    def forward(self, img, txt, cos, sin):
        qi, ki, vi = self.qkv(self.img, img, self.gains[0], self.gains[1])
        qt, kt, vt = self.qkv(self.txt, txt, self.gains[2], self.gains[3])
        q = self.rope(torch.cat((qt, qi), dim=2), cos, sin)
        k = self.rope(torch.cat((kt, ki), dim=2), cos, sin)
        return q, k, torch.cat((vt, vi), dim=2)


def get_inputs():
    s = 1024 + 197
    ang = torch.rand(s, 64) * 6.28
    return [
        torch.randn(1, 1024, 3072, dtype=torch.bfloat16),
        torch.randn(1, 197, 3072, dtype=torch.bfloat16),
        ang.cos(),
        ang.sin(),
    ]


def get_init_inputs():
    return [3072, 24]
