import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, blocks):
        super().__init__()
        n = blocks
        self.left = nn.Parameter((torch.randn(n, n, n) / n**0.5).half())
        self.right = nn.Parameter((torch.randn(n, n, n) / n**0.5).half())
        self.bias = nn.Parameter((0.1 * torch.randn(n * n)).half())

    def forward(self, x):
        n = self.left.shape[0]
        h = x.view(-1, n, n).transpose(0, 1)
        h = torch.bmm(h, self.left)
        h = h.permute(2, 1, 0)
        h = torch.bmm(h, self.right)
        y = h.permute(1, 2, 0).reshape(x.shape)
        return F.gelu(y + self.bias)


def get_inputs():
    return [torch.randn(8, 1024, 4096, dtype=torch.float16)]


def get_init_inputs():
    return [64]
