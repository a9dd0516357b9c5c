"""Gradients of a layer norm: of its input, its weight and its bias.

input dy: f32[R, C] ~ normal
input x: f32[R, C] ~ normal
input mean: f32[R] ~ normal(0, 0.1)
input rstd: f32[R] ~ uniform(0.5, 1.5)
param weight: f32[C] ~ normal(1, 0.1)
a: f32[r: R] = sum[c: C](dy[r, c] * weight[c])
b: f32[r: R] = sum[c: C](dy[r, c] * weight[c] * ((x[r, c] - mean[r]) * rstd[r]))
dx: f32[r: R, c: C] = rstd[r] * (dy[r, c] * weight[c] - (a[r] + (x[r, c] - mean[r]) * rstd[r] * b[r]) / C)
dweight: f32[c: C] = sum[r: R](dy[r, c] * ((x[r, c] - mean[r]) * rstd[r]))
dbias: f32[c: C] = sum[r: R](dy[r, c])
output dx, dweight, dbias
"""
import torch

WORKLOADS = {
    "small": {"R": 16, "C": 512},
    "middle": {"R": 800, "C": 1024},
    "large": {"R": 20480, "C": 2048},
}


class Model(torch.nn.Module):
    def __init__(self, C):
        super().__init__()
        self.weight = torch.nn.Parameter(1 + 0.1 * torch.randn(C))

    def forward(self, dy, x, mean, rstd):
        normed, g = (x - mean[:, None]) * rstd[:, None], dy * self.weight
        dx = rstd[:, None] * (g - g.mean(-1, keepdim=True) - normed * (g * normed).mean(-1, keepdim=True))
        return dx, (dy * normed).sum(0), dy.sum(0)


def get_inputs(R=800, C=1024):
    return [torch.randn(R, C), torch.randn(R, C), 0.1 * torch.randn(R), torch.rand(R) + 0.5]


def get_init_inputs(R=800, C=1024):
    return [C]
