"""DLRM's bottom MLP on dense features: log transform, then 13 -> 512 -> 256 -> 64 with ReLU."""
import torch
import torch.nn as nn
import torch.nn.functional as F

B = 16384
SIZES = [13, 512, 256, 64]

class Model(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.w = nn.ParameterList([nn.Parameter(torch.randn(o, i) * (2 / i) ** 0.5) for i, o in zip(sizes, sizes[1:])])
        self.b = nn.ParameterList([nn.Parameter(0.1 * torch.randn(o)) for o in sizes[1:]])

    def forward(self, dense):
        x = torch.log1p(F.relu(dense))
        for w, b in zip(self.w, self.b):
            x = F.relu(F.linear(x, w, b))
        return x

def get_inputs():
    return [10 * torch.randn(B, SIZES[0])]

def get_init_inputs():
    return [SIZES]
