"""SVD-compressed speech encoder MLP: every weight a product of two thin factors."""
import torch
import torch.nn as nn
import torch.nn.functional as F

T, D, FF, R = 1500, 1280, 5120, 320

class Model(nn.Module):
    def __init__(self, d, ff, r):
        super().__init__()
        self.a1 = nn.Parameter((torch.randn(d, r) * d ** -0.5).half())
        self.b1 = nn.Parameter((torch.randn(r, ff) * r ** -0.5).half())
        self.c1 = nn.Parameter((0.1 * torch.randn(ff)).half())
        self.a2 = nn.Parameter((torch.randn(ff, r) * ff ** -0.5).half())
        self.b2 = nn.Parameter((torch.randn(r, d) * r ** -0.5).half())
        self.c2 = nn.Parameter((0.1 * torch.randn(d)).half())

    def forward(self, x):
        h = F.gelu(x @ self.a1 @ self.b1 + self.c1)
        return x + h @ self.a2 @ self.b2 + self.c2

def get_inputs():
    return [torch.randn(T, D).half()]

def get_init_inputs():
    return [D, FF, R]
