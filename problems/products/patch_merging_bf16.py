"""Swin's patch merging: 2 x 2 neighbours gathered to features by strided slices, layer norm, linear without bias."""
import torch
import torch.nn as nn
import torch.nn.functional as F

B, H, W, C = 32, 56, 56, 128

class Model(nn.Module):
    def __init__(self, h, w, c):
        super().__init__()
        self.h, self.w, self.c = h, w, c
        self.g = nn.Parameter((1 + 0.1 * torch.randn(4 * c)).bfloat16())
        self.b = nn.Parameter((0.1 * torch.randn(4 * c)).bfloat16())
        self.weight = nn.Parameter((torch.randn(2 * c, 4 * c) * (4 * c) ** -0.5).bfloat16())

    def forward(self, x):
        n = x.shape[0]
        x = x.view(n, self.h, self.w, self.c)
        x = torch.cat([x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]], dim=-1)
        x = x.view(n, -1, 4 * self.c)
        x = F.layer_norm(x, (4 * self.c,), self.g, self.b)
        return F.linear(x, self.weight)

def get_inputs():
    return [torch.randn(B, H * W, C).bfloat16()]

def get_init_inputs():
    return [H, W, C]
