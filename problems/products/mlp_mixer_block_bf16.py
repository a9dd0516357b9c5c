"""MLP-Mixer block: token mixing on the transposed tensor, then channel mixing, both with norm and residual."""
import torch
import torch.nn as nn
import torch.nn.functional as F

B, T, D, TH, CH = 16, 196, 768, 384, 3072

class Model(nn.Module):
    def __init__(self, t, d, th, ch):
        super().__init__()
        self.d = d
        self.n1 = nn.Parameter((1 + 0.1 * torch.randn(d)).bfloat16())
        self.n1b = nn.Parameter((0.1 * torch.randn(d)).bfloat16())
        self.n2 = nn.Parameter((1 + 0.1 * torch.randn(d)).bfloat16())
        self.n2b = nn.Parameter((0.1 * torch.randn(d)).bfloat16())
        self.t1 = nn.Parameter((torch.randn(th, t) * t ** -0.5).bfloat16())
        self.t1b = nn.Parameter((0.1 * torch.randn(th)).bfloat16())
        self.t2 = nn.Parameter((torch.randn(t, th) * th ** -0.5).bfloat16())
        self.t2b = nn.Parameter((0.1 * torch.randn(t)).bfloat16())
        self.c1 = nn.Parameter((torch.randn(ch, d) * d ** -0.5).bfloat16())
        self.c1b = nn.Parameter((0.1 * torch.randn(ch)).bfloat16())
        self.c2 = nn.Parameter((torch.randn(d, ch) * ch ** -0.5).bfloat16())
        self.c2b = nn.Parameter((0.1 * torch.randn(d)).bfloat16())

    def forward(self, x):
        h = F.layer_norm(x, (self.d,), self.n1, self.n1b, 1e-6).transpose(1, 2)
        h = F.linear(F.gelu(F.linear(h, self.t1, self.t1b)), self.t2, self.t2b)
        x = x + h.transpose(1, 2)
        h = F.layer_norm(x, (self.d,), self.n2, self.n2b, 1e-6)
        return x + F.linear(F.gelu(F.linear(h, self.c1, self.c1b)), self.c2, self.c2b)

def get_inputs():
    return [torch.randn(B, T, D).bfloat16()]

def get_init_inputs():
    return [T, D, TH, CH]
