import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter((torch.randn(2048, 4096) / 2048 ** 0.5).to(torch.bfloat16))

    def forward(self, *x):
        return F.gelu(x[0] @ self.w + x[1])


def get_inputs():
    return [torch.randn(4096, 2048).to(torch.bfloat16), torch.randn(4096).to(torch.bfloat16)]


def get_init_inputs():
    return []
