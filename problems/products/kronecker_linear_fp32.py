"""A linear whose weight is a Kronecker product, as an einsum over a reshaped feature axis, with bias and SiLU."""
import torch
import torch.nn as nn
import torch.nn.functional as F

B, I, J, K, L = 4096, 48, 64, 64, 32

class Model(nn.Module):
    def __init__(self, i, j, k, l):
        super().__init__()
        self.i, self.j = i, j
        self.left = nn.Parameter(torch.randn(k, i) * i ** -0.5)
        self.right = nn.Parameter(torch.randn(l, j) * j ** -0.5)
        self.bias = nn.Parameter(0.1 * torch.randn(k * l))

    def forward(self, x):
        x = x.view(-1, self.i, self.j)
        y = torch.einsum("bij,ki,lj->bkl", x, self.left, self.right)
        return F.silu(y.flatten(1) + self.bias)

def get_inputs():
    return [torch.randn(B, I * J)]

def get_init_inputs():
    return [I, J, K, L]
