"""DoRA: frozen weight plus low rank, rescaled by a learnt magnitude over the norm of the merged rows."""
import torch
import torch.nn as nn
import torch.nn.functional as F

T, D, N, R = 8192, 2048, 2048, 16

class Model(nn.Module):
    def __init__(self, d, n, r):
        super().__init__()
        self.scaling = 2.0
        self.weight = nn.Parameter((torch.randn(n, d) * d ** -0.5).bfloat16())
        self.bias = nn.Parameter((0.1 * torch.randn(n)).bfloat16())
        self.a = nn.Parameter((torch.randn(r, d) * d ** -0.5).bfloat16())
        self.b = nn.Parameter((0.3 * torch.randn(n, r) * r ** -0.5).bfloat16())
        self.magnitude = nn.Parameter((1 + 0.1 * torch.randn(n)).bfloat16())

    def forward(self, x):
        merged = self.weight + self.scaling * (self.b @ self.a)
        norm = torch.linalg.vector_norm(merged.float(), dim=1)
        mag = (self.magnitude.float() / norm).to(x.dtype)
        lora = F.linear(F.linear(x, self.a), self.b) * self.scaling
        return mag * (F.linear(x, self.weight) + lora) + self.bias

def get_inputs():
    return [torch.randn(T, D).bfloat16()]

def get_init_inputs():
    return [D, N, R]
