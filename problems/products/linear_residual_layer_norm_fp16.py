"""BERT's output layer: linear with bias, residual, layer norm after it."""
import torch
import torch.nn as nn
import torch.nn.functional as F

B, T, K, D = 16, 384, 3072, 768

class Model(nn.Module):
    def __init__(self, k, d):
        super().__init__()
        self.d = d
        self.weight = nn.Parameter((torch.randn(d, k) * k ** -0.5).half())
        self.bias = nn.Parameter((0.1 * torch.randn(d)).half())
        self.gamma = nn.Parameter((1 + 0.1 * torch.randn(d)).half())
        self.beta = nn.Parameter((0.1 * torch.randn(d)).half())

    def forward(self, x, residual):
        y = F.linear(x, self.weight, self.bias)
        return F.layer_norm(y + residual, (self.d,), self.gamma, self.beta, 1e-12)

def get_inputs():
    return [torch.randn(B, T, K).half(), torch.randn(B, T, D).half()]

def get_init_inputs():
    return [K, D]
