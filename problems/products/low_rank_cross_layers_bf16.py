"""DCN-v2 in its low-rank form: x0 * (U tanh(C tanh(V x)) + b) + x, three layers."""
import torch
import torch.nn as nn
import torch.nn.functional as F

B, D, R, LAYERS = 8192, 1248, 128, 3

class Model(nn.Module):
    def __init__(self, d, r, layers):
        super().__init__()
        self.layers = layers
        self.v = nn.Parameter((torch.randn(layers, r, d) * d ** -0.5).bfloat16())
        self.c = nn.Parameter((torch.randn(layers, r, r) * r ** -0.5).bfloat16())
        self.u = nn.Parameter((torch.randn(layers, d, r) * r ** -0.5).bfloat16())
        self.b = nn.Parameter((0.1 * torch.randn(layers, d)).bfloat16())

    def forward(self, x0):
        x = x0
        for i in range(self.layers):
            h = torch.tanh(F.linear(x, self.v[i]))
            h = torch.tanh(F.linear(h, self.c[i]))
            x = x0 * F.linear(h, self.u[i], self.b[i]) + x
        return x

def get_inputs():
    return [torch.randn(B, D).bfloat16()]

def get_init_inputs():
    return [D, R, LAYERS]
