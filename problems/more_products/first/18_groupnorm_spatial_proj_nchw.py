import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, channels, inner, groups):
        super().__init__()
        kw = dict(dtype=torch.bfloat16)
        self.norm = nn.GroupNorm(groups, channels, eps=1e-6, **kw)
        self.proj_in = nn.Linear(channels, inner, **kw)
        self.proj_out = nn.Linear(inner, channels, **kw)

    def forward(self, x):
        b, c, h, w = x.shape
        t = self.norm(x).permute(0, 2, 3, 1).reshape(b, h * w, c)
        t = F.silu(self.proj_in(t))
        t = self.proj_out(t).reshape(b, h, w, c).permute(0, 3, 1, 2)
        return (x + t) * 0.7071067811865476


def get_inputs():
    return [torch.randn(4, 640, 64, 64, dtype=torch.bfloat16)]


def get_init_inputs():
    return [640, 1280, 32]
