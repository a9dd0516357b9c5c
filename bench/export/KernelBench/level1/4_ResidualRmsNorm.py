import torch
import torch.nn as nn


class Model(nn.Module):
    """Two inputs, a weight, two outputs."""

    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(features))

    def forward(self, x, residual):
        total = x + residual
        return total * torch.rsqrt((total * total).mean(-1, keepdim=True) + 1e-6) * self.weight, total


def get_inputs():
    return [torch.randn(64, 4096), torch.randn(64, 4096)]


def get_init_inputs():
    return [4096]
