"""Gradients of an RMS norm: of its input and of its weight.

input dy: bf16[R, C] ~ normal
input x: bf16[R, C] ~ normal
input rstd: f32[R] ~ uniform(0.5, 1.5)
param weight: bf16[C] ~ normal(1, 0.1)
a: f32[r: R] = sum[c: C](f32(dy[r, c]) * f32(weight[c]) * f32(x[r, c]))
dx: bf16[r: R, c: C] = bf16(rstd[r] * (f32(dy[r, c]) * f32(weight[c]) - f32(x[r, c]) * rstd[r] * rstd[r] * a[r] / C))
dw: f32[c: C] = sum[r: R](f32(dy[r, c]) * f32(x[r, c]) * rstd[r])
dweight: bf16[c: C] = bf16(dw[c])
output dx, dweight
"""
import torch

WORKLOADS = {
    "small": {"R": 8, "C": 2048},
    "middle": {"R": 400, "C": 4096},
    "large": {"R": 10240, "C": 8192},
}


class Model(torch.nn.Module):
    def __init__(self, C):
        super().__init__()
        self.weight = torch.nn.Parameter((1 + 0.1 * torch.randn(C)).bfloat16())

    def forward(self, dy, x, rstd):
        dy, x, rstd = dy.float(), x.float(), rstd[:, None]
        normed, g = x * rstd, dy * self.weight.float()
        dx = rstd * (g - normed * (g * normed).mean(-1, keepdim=True))
        return dx.bfloat16(), (dy * normed).sum(0).bfloat16()


def get_inputs(R=400, C=4096):
    return [torch.randn(R, C, dtype=torch.bfloat16), torch.randn(R, C, dtype=torch.bfloat16), torch.rand(R) + 0.5]


def get_init_inputs(R=400, C=4096):
    return [C]
