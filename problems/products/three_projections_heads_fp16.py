"""Speech encoder: q, k and v from three weights on one normed input (k without bias), in [B, H, T, D]."""
import torch
import torch.nn as nn
import torch.nn.functional as F

B, T, D, H = 4, 1500, 1280, 20

class Model(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.d, self.h = d, h
        self.scale = (d // h) ** -0.25
        self.g = nn.Parameter((1 + 0.1 * torch.randn(d)).half())
        self.b = nn.Parameter((0.1 * torch.randn(d)).half())
        self.wq = nn.Parameter((torch.randn(d, d) * d ** -0.5).half())
        self.bq = nn.Parameter((0.1 * torch.randn(d)).half())
        self.wk = nn.Parameter((torch.randn(d, d) * d ** -0.5).half())
        self.wv = nn.Parameter((torch.randn(d, d) * d ** -0.5).half())
        self.bv = nn.Parameter((0.1 * torch.randn(d)).half())

    def heads(self, x):
        return x.view(x.shape[0], x.shape[1], self.h, -1).transpose(1, 2).contiguous()

    def forward(self, x):
        x = F.layer_norm(x, (self.d,), self.g, self.b)
        q = self.heads(F.linear(x, self.wq, self.bq)) * self.scale
        k = self.heads(F.linear(x, self.wk)) * self.scale
        v = self.heads(F.linear(x, self.wv, self.bv))
        return q, k, v

def get_inputs():
    return [torch.randn(B, T, D).half()]

def get_init_inputs():
    return [D, H]
