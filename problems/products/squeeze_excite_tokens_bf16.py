"""Expanded features with a squeeze-excite gate from their mean over tokens, then projected back."""
import torch
import torch.nn as nn
import torch.nn.functional as F

B, T, D, E, S = 64, 196, 384, 1536, 96

class Model(nn.Module):
    def __init__(self, d, e, s):
        super().__init__()
        self.up = nn.Parameter((torch.randn(e, d) * d ** -0.5).bfloat16())
        self.up_b = nn.Parameter((0.1 * torch.randn(e)).bfloat16())
        self.sq = nn.Parameter((2 * torch.randn(s, e) * e ** -0.5).bfloat16())
        self.sq_b = nn.Parameter((0.1 * torch.randn(s)).bfloat16())
        self.ex = nn.Parameter((2 * torch.randn(e, s) * s ** -0.5).bfloat16())
        self.ex_b = nn.Parameter((0.1 * torch.randn(e)).bfloat16())
        self.down = nn.Parameter((torch.randn(d, e) * e ** -0.5).bfloat16())

    def forward(self, x):
        h = F.silu(F.linear(x, self.up, self.up_b))
        s = h.mean(dim=1)
        s = F.linear(F.silu(F.linear(s, self.sq, self.sq_b)), self.ex, self.ex_b)
        h = h * torch.sigmoid(s).unsqueeze(1)
        return x + F.linear(h, self.down)

def get_inputs():
    return [torch.randn(B, T, D).bfloat16()]

def get_init_inputs():
    return [D, E, S]
