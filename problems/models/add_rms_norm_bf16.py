"""A residual is added, then an RMS norm; the sum goes on as the next residual.

input x: bf16[R, C] ~ normal
input residual: bf16[R, C] ~ normal
param weight: bf16[C] ~ normal(1, 0.1)
h: bf16[r: R, c: C] = bf16(f32(x[r, c]) + f32(residual[r, c]))
s: f32[r: R] = sum[c: C](f32(h[r, c]) * f32(h[r, c]))
y: bf16[r: R, c: C] = bf16(f32(h[r, c]) * rsqrt(s[r] / C + 1e-6) * f32(weight[c]))
output y, h
"""
import torch

WORKLOADS = {
    "small": {"R": 6, "C": 2048},
    "middle": {"R": 304, "C": 4096},
    "large": {"R": 7680, "C": 8192},
}


class Model(torch.nn.Module):
    def __init__(self, C):
        super().__init__()
        self.weight = torch.nn.Parameter((1 + 0.1 * torch.randn(C)).bfloat16())

    def forward(self, x, residual):
        h = x + residual
        f = h.float()
        y = f * torch.rsqrt(f.pow(2).mean(-1, keepdim=True) + 1e-6)
        return (y * self.weight.float()).to(x.dtype), h


def get_inputs(R=304, C=4096):
    return [torch.randn(R, C, dtype=torch.bfloat16), torch.randn(R, C, dtype=torch.bfloat16)]


def get_init_inputs(R=304, C=4096):
    return [C]
