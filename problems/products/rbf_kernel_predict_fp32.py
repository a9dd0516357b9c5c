"""Gaussian process mean: RBF kernel matrix with a length scale for each feature, times the dual weights."""
import torch
import torch.nn as nn
import torch.nn.functional as F

M, N, D, OUT = 3000, 7001, 90, 4

class Model(nn.Module):
    def __init__(self, n, d, out):
        super().__init__()
        self.points = nn.Parameter(torch.randn(n, d))
        self.log_ls = nn.Parameter(1.6 + 0.1 * torch.randn(d))
        self.log_var = nn.Parameter(torch.tensor(0.3))
        self.alpha = nn.Parameter(torch.randn(n, out) * n ** -0.5)

    def forward(self, x):
        inv = (-self.log_ls).exp()
        a, b = x * inv, self.points * inv
        d2 = (a * a).sum(-1)[:, None] + (b * b).sum(-1)[None, :] - 2.0 * (a @ b.t())
        k = self.log_var.exp() * torch.exp(-0.5 * d2.clamp_min(0))
        return k @ self.alpha

def get_inputs():
    return [torch.randn(M, D)]

def get_init_inputs():
    return [N, D, OUT]
