"""SmoothQuant MLP: activations divided by smoothing factors, int8 for each token, int8 weights, ReLU, twice."""
import torch
import torch.nn as nn
import torch.nn.functional as F

T, D, FF = 100, 2048, 8192

class Model(nn.Module):
    def __init__(self, d, ff):
        super().__init__()
        self.register_buffer("w1", torch.randint(-127, 128, (ff, d), dtype=torch.int8))
        self.s1 = nn.Parameter((0.5 + torch.rand(ff)) * d ** -0.5 / 73)
        self.b1 = nn.Parameter((0.1 * torch.randn(ff)).bfloat16())
        self.m1 = nn.Parameter((0.5 + torch.rand(d)).bfloat16())
        self.register_buffer("w2", torch.randint(-127, 128, (d, ff), dtype=torch.int8))
        self.s2 = nn.Parameter((0.5 + torch.rand(d)) * ff ** -0.5 / 73)
        self.b2 = nn.Parameter((0.1 * torch.randn(d)).bfloat16())

    def qlinear(self, x, w, s, b):
        xf = x.float()
        sx = xf.abs().amax(-1, keepdim=True).clamp_min(1e-8) / 127.0
        xq = torch.round(xf / sx).clamp(-127, 127)
        y = (xq @ w.float().t()) * sx * s
        return (y + b.float()).to(x.dtype)

    def forward(self, x):
        h = F.relu(self.qlinear(x / self.m1, self.w1, self.s1, self.b1))
        return x + self.qlinear(h, self.w2, self.s2, self.b2)

def get_inputs():
    return [torch.randn(T, D).bfloat16()]

def get_init_inputs():
    return [D, FF]
