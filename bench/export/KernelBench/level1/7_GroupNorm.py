import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, channels, groups):
        super().__init__()
        self.stack = nn.Sequential(nn.GroupNorm(groups, channels), nn.SiLU())

    def forward(self, x):
        return self.stack(x)


def get_inputs():
    return [torch.randn(8, 64, 32, 32)]


def get_init_inputs():
    return [64, 8]
