import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, tokens, hidden, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.w1 = nn.Parameter(torch.randn(hidden, tokens) / tokens**0.5)
        self.b1 = nn.Parameter(0.1 * torch.randn(hidden, 1))
        self.w2 = nn.Parameter(torch.randn(tokens, hidden) / hidden**0.5)
        self.b2 = nn.Parameter(0.1 * torch.randn(tokens, 1))

    def forward(self, x):
        h = self.norm(x)
        h = F.gelu(torch.matmul(self.w1, h) + self.b1)
        h = torch.matmul(self.w2, h) + self.b2
        return x + h


def get_inputs():
    return [torch.randn(32, 197, 768)]


def get_init_inputs():
    return [197, 384, 768]
