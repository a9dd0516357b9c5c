"""Backward pass by hand of y = relu(x W1 + b1)^2 W2 + b2, hidden recomputed; all five gradients."""
import torch
import torch.nn as nn
import torch.nn.functional as F

T, D, FF = 4096, 1024, 4096

class Model(nn.Module):
    def __init__(self, d, ff):
        super().__init__()
        self.w1 = nn.Parameter((torch.randn(d, ff) * d ** -0.5).bfloat16())
        self.b1 = nn.Parameter((0.1 * torch.randn(ff)).bfloat16())
        self.w2 = nn.Parameter((torch.randn(ff, d) * ff ** -0.5).bfloat16())

    def forward(self, x, dy):
        z = torch.addmm(self.b1, x, self.w1)
        r = F.relu(z)
        a = r * r
        dw2 = a.t() @ dy
        db2 = dy.float().sum(0)
        dz = (dy @ self.w2.t()) * (2 * r)
        dw1 = x.t() @ dz
        db1 = dz.float().sum(0)
        dx = dz @ self.w1.t()
        return dx, dw1, db1, dw2, db2

def get_inputs():
    return [torch.randn(T, D).bfloat16(), (0.1 * torch.randn(T, D)).bfloat16()]

def get_init_inputs():
    return [D, FF]
