"""A residual is added, then a layer norm with weight and bias.

input x: f16[R, C] ~ normal
input residual: f16[R, C] ~ normal
param weight: f16[C] ~ normal(1, 0.1)
param bias: f16[C] ~ normal(0, 0.1)
h: f16[r: R, c: C] = f16(f32(x[r, c]) + f32(residual[r, c]))
s: f32[r: R] = sum[c: C](f32(h[r, c]))
q: f32[r: R] = sum[c: C]((f32(h[r, c]) - s[r] / C) * (f32(h[r, c]) - s[r] / C))
y: f16[r: R, c: C] = f16((f32(h[r, c]) - s[r] / C) * rsqrt(q[r] / C + 1e-5) * f32(weight[c]) + f32(bias[c]))
output y, h
"""
import torch
import torch.nn.functional as F

WORKLOADS = {
    "small": {"R": 16, "C": 768},
    "middle": {"R": 1216, "C": 1024},
    "large": {"R": 38400, "C": 1600},
}


class Model(torch.nn.Module):
    def __init__(self, C):
        super().__init__()
        self.weight = torch.nn.Parameter((1 + 0.1 * torch.randn(C)).half())
        self.bias = torch.nn.Parameter((0.1 * torch.randn(C)).half())

    def forward(self, x, residual):
        h = x + residual
        return F.layer_norm(h, (h.shape[-1],), self.weight, self.bias, 1e-5), h


def get_inputs(R=1216, C=1024):
    return [torch.randn(R, C, dtype=torch.float16), torch.randn(R, C, dtype=torch.float16)]


def get_init_inputs(R=1216, C=1024):
    return [C]
