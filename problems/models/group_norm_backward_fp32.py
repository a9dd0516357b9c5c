"""Gradients of a group norm: of its input, and of each channel's weight and bias.

input dy: f32[N, G, K, P] ~ normal
input x: f32[N, G, K, P] ~ normal
input mean: f32[N, G] ~ normal(0, 0.1)
input rstd: f32[N, G] ~ uniform(0.5, 1.5)
param weight: f32[G, K] ~ normal(1, 0.1)
a: f32[n: N, g: G] = sum[k: K, p: P](dy[n, g, k, p] * weight[g, k])
b: f32[n: N, g: G] = sum[k: K, p: P](dy[n, g, k, p] * weight[g, k] * ((x[n, g, k, p] - mean[n, g]) * rstd[n, g]))
dx: f32[n: N, g: G, k: K, p: P] = rstd[n, g] * (dy[n, g, k, p] * weight[g, k] - (a[n, g] + (x[n, g, k, p] - mean[n, g]) * rstd[n, g] * b[n, g]) / (K * P))
dweight: f32[g: G, k: K] = sum[n: N, p: P](dy[n, g, k, p] * ((x[n, g, k, p] - mean[n, g]) * rstd[n, g]))
dbias: f32[g: G, k: K] = sum[n: N, p: P](dy[n, g, k, p])
output dx, dweight, dbias
"""
import torch

WORKLOADS = {
    "small": {"N": 2, "G": 4, "K": 4, "P": 256},
    "middle": {"N": 2, "G": 32, "K": 4, "P": 3136},
    "large": {"N": 16, "G": 32, "K": 8, "P": 10240},
}


class Model(torch.nn.Module):
    def __init__(self, G, K):
        super().__init__()
        self.weight = torch.nn.Parameter(1 + 0.1 * torch.randn(G, K))

    def forward(self, dy, x, mean, rstd):
        mean, rstd = mean[:, :, None, None], rstd[:, :, None, None]
        normed, g = (x - mean) * rstd, dy * self.weight[:, :, None]
        dx = rstd * (g - g.mean((2, 3), keepdim=True) - normed * (g * normed).mean((2, 3), keepdim=True))
        return dx, (dy * normed).sum((0, 3)), dy.sum((0, 3))


def get_inputs(N=2, G=32, K=4, P=3136):
    return [torch.randn(N, G, K, P), torch.randn(N, G, K, P), 0.1 * torch.randn(N, G), torch.rand(N, G) + 0.5]


def get_init_inputs(N=2, G=32, K=4, P=3136):
    return [G, K]
