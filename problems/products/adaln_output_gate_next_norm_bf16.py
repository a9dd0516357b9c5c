"""Diffusion transformer, end of the attention part: modulation from silu(c), gated residual, next modulated norm."""
import torch
import torch.nn as nn
import torch.nn.functional as F

B, T, D = 2, 1560, 1536

class Model(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.d = d
        self.mod_w = nn.Parameter((0.5 * torch.randn(3 * d, d) * d ** -0.5).bfloat16())
        self.mod_b = nn.Parameter((0.1 * torch.randn(3 * d)).bfloat16())
        self.out_w = nn.Parameter((torch.randn(d, d) * d ** -0.5).bfloat16())
        self.out_b = nn.Parameter((0.1 * torch.randn(d)).bfloat16())

    def forward(self, x, attn, c):
        mod = F.linear(F.silu(c), self.mod_w, self.mod_b)
        gate, shift, scale = mod.unsqueeze(1).chunk(3, dim=-1)
        y = x + gate * F.linear(attn, self.out_w, self.out_b)
        h = F.layer_norm(y, (self.d,), eps=1e-6) * (1 + scale) + shift
        return y, h

def get_inputs():
    return [torch.randn(B, T, D).bfloat16(), torch.randn(B, T, D).bfloat16(), torch.randn(B, D).bfloat16()]

def get_init_inputs():
    return [D]
