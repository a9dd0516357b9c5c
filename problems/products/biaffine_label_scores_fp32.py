"""Biaffine dependency parser: two leaky-ReLU projections, then a bilinear form for each label."""
import torch
import torch.nn as nn
import torch.nn.functional as F

B, T, D, H, LABELS = 16, 100, 800, 128, 40

class Model(nn.Module):
    def __init__(self, d, h, labels):
        super().__init__()
        self.dep_w = nn.Parameter(torch.randn(h, d) * d ** -0.5)
        self.dep_b = nn.Parameter(0.1 * torch.randn(h))
        self.head_w = nn.Parameter(torch.randn(h, d) * d ** -0.5)
        self.head_b = nn.Parameter(0.1 * torch.randn(h))
        self.u = nn.Parameter(torch.randn(labels, h + 1, h + 1) / h)

    def forward(self, x):
        dep = F.leaky_relu(F.linear(x, self.dep_w, self.dep_b), 0.1)
        head = F.leaky_relu(F.linear(x, self.head_w, self.head_b), 0.1)
        dep = torch.cat([dep, torch.ones_like(dep[..., :1])], -1)
        head = torch.cat([head, torch.ones_like(head[..., :1])], -1)
        return torch.einsum("bxi,oij,byj->bxyo", dep, self.u, head)

def get_inputs():
    return [torch.randn(B, T, D)]

def get_init_inputs():
    return [D, H, LABELS]
