"""Protein folding: outer product of two projections averaged over sequences under a mask, then a linear."""
import torch
import torch.nn as nn
import torch.nn.functional as F

S, R, D, C, Z = 128, 192, 256, 32, 128

class Model(nn.Module):
    def __init__(self, d, c, z):
        super().__init__()
        self.d = d
        self.norm_w = nn.Parameter((1 + 0.1 * torch.randn(d)).bfloat16())
        self.norm_b = nn.Parameter((0.1 * torch.randn(d)).bfloat16())
        self.a_w = nn.Parameter((torch.randn(c, d) * d ** -0.5).bfloat16())
        self.b_w = nn.Parameter((torch.randn(c, d) * d ** -0.5).bfloat16())
        self.out_w = nn.Parameter((torch.randn(z, c * c) / c).bfloat16())
        self.out_b = nn.Parameter((0.1 * torch.randn(z)).bfloat16())

    def forward(self, m, mask):
        m = F.layer_norm(m, (self.d,), self.norm_w, self.norm_b, 1e-5)
        a = F.linear(m, self.a_w) * mask[..., None]
        b = F.linear(m, self.b_w) * mask[..., None]
        outer = torch.einsum("sic,sjd->ijcd", a, b).flatten(2)
        norm = torch.einsum("si,sj->ij", mask, mask).unsqueeze(-1)
        return (F.linear(outer, self.out_w) / (norm.sqrt() + 1e-3)) + self.out_b

def get_inputs():
    return [torch.randn(S, R, D).bfloat16(), (torch.rand(S, R) > 0.1).bfloat16()]

def get_init_inputs():
    return [D, C, Z]
