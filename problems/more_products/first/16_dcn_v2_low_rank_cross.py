import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, dim, rank, layers):
        super().__init__()
        self.v = nn.Parameter(torch.randn(layers, dim, rank) / dim**0.5)
        self.u = nn.Parameter(torch.randn(layers, rank, dim) / rank**0.5)
        self.b = nn.Parameter(0.1 * torch.randn(layers, dim))

    def forward(self, x0):
        x = x0
        for i in range(self.v.shape[0]):
            x = x0 * (x @ self.v[i] @ self.u[i] + self.b[i]) + x
        return x


def get_inputs():
    return [0.5 * torch.randn(8192, 1537)]


def get_init_inputs():
    return [1537, 256, 2]
