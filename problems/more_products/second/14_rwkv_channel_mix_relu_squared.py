import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, dim, ffn):
        super().__init__()
        self.time_maa_k = nn.Parameter(torch.rand(1, 1, dim).to(torch.bfloat16))
        self.time_maa_r = nn.Parameter(torch.rand(1, 1, dim).to(torch.bfloat16))
        self.key = nn.Linear(dim, ffn, bias=False, dtype=torch.bfloat16)
        self.receptance = nn.Linear(dim, dim, bias=False, dtype=torch.bfloat16)
        self.value = nn.Linear(ffn, dim, bias=False, dtype=torch.bfloat16)

    def forward(self, x):
        xx = F.pad(x, (0, 0, 1, -1)) - x
        xk = x + xx * self.time_maa_k
        xr = x + xx * self.time_maa_r
        k = torch.relu(self.key(xk)) ** 2
        return torch.sigmoid(self.receptance(xr)) * self.value(k)


def get_inputs():
    return [torch.randn(2, 1024, 2048, dtype=torch.bfloat16)]


def get_init_inputs():
    return [2048, 7168]
