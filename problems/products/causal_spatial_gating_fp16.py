"""gMLP block, causal: GELU projection, layer norm of one half, lower-triangular mixing over tokens, gate."""
import torch
import torch.nn as nn
import torch.nn.functional as F

B, T, D, FF = 8, 512, 1024, 1536

class Model(nn.Module):
    def __init__(self, t, d, ff):
        super().__init__()
        self.ff = ff
        self.w_in = nn.Parameter((torch.randn(2 * ff, d) * d ** -0.5).half())
        self.b_in = nn.Parameter((0.1 * torch.randn(2 * ff)).half())
        self.g = nn.Parameter((1 + 0.1 * torch.randn(ff)).half())
        self.b = nn.Parameter((0.1 * torch.randn(ff)).half())
        self.w_tok = nn.Parameter((torch.randn(t, t) * t ** -0.5).half())
        self.b_tok = nn.Parameter((1 + 0.1 * torch.randn(t)).half())
        self.w_out = nn.Parameter((torch.randn(d, ff) * ff ** -0.5).half())

    def forward(self, x):
        u, v = F.gelu(F.linear(x, self.w_in, self.b_in)).chunk(2, dim=-1)
        v = F.layer_norm(v, (self.ff,), self.g, self.b)
        v = torch.matmul(torch.tril(self.w_tok), v) + self.b_tok[:, None]
        return x + F.linear(u * v, self.w_out)

def get_inputs():
    return [torch.randn(B, T, D).half()]

def get_init_inputs():
    return [T, D, FF]
