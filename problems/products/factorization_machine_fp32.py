"""Factorization machine: linear term and half the difference of squared sums, then a sigmoid."""
import torch
import torch.nn as nn
import torch.nn.functional as F

B, FEATS, K = 4096, 1000, 64

class Model(nn.Module):
    def __init__(self, feats, k):
        super().__init__()
        self.w0 = nn.Parameter(torch.tensor(0.1))
        self.w = nn.Parameter(torch.randn(feats, 1) * feats ** -0.5)
        self.v = nn.Parameter(torch.randn(feats, k) * feats ** -0.5 * k ** -0.25)

    def forward(self, x):
        linear = x @ self.w
        square_of_sum = (x @ self.v).pow(2)
        sum_of_square = x.pow(2) @ self.v.pow(2)
        pair = 0.5 * (square_of_sum - sum_of_square).sum(dim=1, keepdim=True)
        return torch.sigmoid(self.w0 + linear + pair).squeeze(1)

def get_inputs():
    return [torch.randn(B, FEATS)]

def get_init_inputs():
    return [FEATS, K]
