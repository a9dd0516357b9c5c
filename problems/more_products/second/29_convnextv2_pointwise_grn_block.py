import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim, eps=1e-6)
        self.pwconv1 = nn.Linear(dim, 4 * dim)
        self.gamma = nn.Parameter(torch.randn(1, 1, 1, 4 * dim) * 0.1)
        self.beta = nn.Parameter(torch.randn(1, 1, 1, 4 * dim) * 0.1)
        self.pwconv2 = nn.Linear(4 * dim, dim)

    def forward(self, dw, shortcut):
        x = self.norm(dw.permute(0, 2, 3, 1))
        x = F.gelu(self.pwconv1(x))
        gx = torch.sqrt((x * x).sum(dim=(1, 2), keepdim=True))
        nx = gx / (gx.mean(dim=-1, keepdim=True) + 1e-6)
        x = self.gamma * (x * nx) + self.beta + x
        x = self.pwconv2(x).permute(0, 3, 1, 2)
        return shortcut + x


def get_inputs():
    return [torch.randn(32, 192, 28, 28), torch.randn(32, 192, 28, 28)]


def get_init_inputs():
    return [192]
