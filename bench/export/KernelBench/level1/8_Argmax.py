import torch
import torch.nn as nn


class Model(nn.Module):
    """Two outputs of different types."""

    def forward(self, x):
        values, indexes = torch.max(x, dim=1)
        return values, indexes


def get_inputs():
    return [torch.randn(64, 512, 64)]


def get_init_inputs():
    return []
