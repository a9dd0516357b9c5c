"""Long skip connection of a diffusion transformer: cat features, layer norm, linear."""
import torch
import torch.nn as nn
import torch.nn.functional as F

B, T, D = 2, 1371, 1152

class Model(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.d = d
        self.norm_w = nn.Parameter((1 + 0.1 * torch.randn(2 * d)).bfloat16())
        self.norm_b = nn.Parameter((0.1 * torch.randn(2 * d)).bfloat16())
        self.weight = nn.Parameter((torch.randn(d, 2 * d) * (2 * d) ** -0.5).bfloat16())
        self.bias = nn.Parameter((0.1 * torch.randn(d)).bfloat16())

    def forward(self, x, skip):
        h = torch.cat([x, skip], dim=-1)
        h = F.layer_norm(h, (2 * self.d,), self.norm_w, self.norm_b, 1e-6)
        return F.linear(h, self.weight, self.bias)

def get_inputs():
    return [torch.randn(B, T, D).bfloat16(), torch.randn(B, T, D).bfloat16()]

def get_init_inputs():
    return [D]
