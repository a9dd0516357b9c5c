"""Bilinear gated unit (no activation) with a joined weight, pre-norm and residual, eight rows."""
import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS, D, FF = 8, 2560, 6912

class Model(nn.Module):
    def __init__(self, d, ff):
        super().__init__()
        self.norm = nn.Parameter((1 + 0.1 * torch.randn(d)).bfloat16())
        self.w_in = nn.Parameter((torch.randn(d, 2 * ff) * d ** -0.5).bfloat16())
        self.w_out = nn.Parameter((torch.randn(ff, d) * ff ** -0.5).bfloat16())

    def forward(self, x):
        h = F.rms_norm(x, (x.shape[-1],), self.norm, 1e-5)
        a, b = (h @ self.w_in).chunk(2, dim=-1)
        return x + (a * b) @ self.w_out

def get_inputs():
    return [torch.randn(ROWS, D).bfloat16()]

def get_init_inputs():
    return [D, FF]
