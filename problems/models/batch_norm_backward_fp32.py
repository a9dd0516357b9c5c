"""Gradients of a batch norm in training: of its input, its weight and its bias.

input dy: f32[N, C, P] ~ normal
input x: f32[N, C, P] ~ normal
input mean: f32[C] ~ normal(0, 0.1)
input rstd: f32[C] ~ uniform(0.5, 1.5)
param weight: f32[C] ~ normal(1, 0.1)
dbias: f32[c: C] = sum[n: N, p: P](dy[n, c, p])
dweight: f32[c: C] = sum[n: N, p: P](dy[n, c, p] * ((x[n, c, p] - mean[c]) * rstd[c]))
dx: f32[n: N, c: C, p: P] = weight[c] * rstd[c] * (dy[n, c, p] - (dbias[c] + (x[n, c, p] - mean[c]) * rstd[c] * dweight[c]) / (N * P))
output dx, dweight, dbias
"""
import torch

WORKLOADS = {
    "small": {"N": 2, "C": 16, "P": 256},
    "middle": {"N": 8, "C": 32, "P": 3136},
    "large": {"N": 32, "C": 64, "P": 20449},
}


class Model(torch.nn.Module):
    def __init__(self, C):
        super().__init__()
        self.weight = torch.nn.Parameter(1 + 0.1 * torch.randn(C))

    def forward(self, dy, x, mean, rstd):
        normed = (x - mean[:, None]) * rstd[:, None]
        dbias, dweight = dy.sum((0, 2)), (dy * normed).sum((0, 2))
        count = x.shape[0] * x.shape[2]
        dx = (self.weight * rstd)[:, None] * (dy - (dbias[:, None] + normed * dweight[:, None]) / count)
        return dx, dweight, dbias


def get_inputs(N=8, C=32, P=3136):
    return [torch.randn(N, C, P), torch.randn(N, C, P), 0.1 * torch.randn(C), torch.rand(C) + 0.5]


def get_init_inputs(N=8, C=32, P=3136):
    return [C]
