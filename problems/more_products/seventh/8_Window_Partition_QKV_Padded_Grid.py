import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """SAM image encoder: LayerNorm, pad the 64 x 64 grid to whole 14 x 14 windows, partition, biased QKV, split by head."""

    def __init__(self, dim, heads, window):
        super().__init__()
        self.heads, self.window = heads, window
        self.norm = nn.LayerNorm(dim, eps=1e-6)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.to(torch.bfloat16)

    def forward(self, x):
        b, h, w, c = x.shape
        s = self.window
        ph, pw = (-h) % s, (-w) % s
        y = F.pad(self.norm(x), (0, 0, 0, pw, 0, ph))
        nh, nw = (h + ph) // s, (w + pw) // s
        y = y.view(b, nh, s, nw, s, c).permute(0, 1, 3, 2, 4, 5).reshape(b * nh * nw, s * s, c)
        qkv = self.qkv(y).view(b * nh * nw, s * s, 3, self.heads, c // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).contiguous().unbind(0)
        return q * (c // self.heads) ** -0.5, k, v


def get_inputs():
    return [torch.randn(2, 64, 64, 768).to(torch.bfloat16)]


def get_init_inputs():
    return [768, 12, 14]
