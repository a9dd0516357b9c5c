"""A vocoder's periodic activation, x + sin^2(a x) / a, with a for each channel.

input x: f32[N, C, P] ~ normal(0, 3)
param alpha: f32[C] ~ uniform(0.5, 2)
s: f32[n: N, c: C, p: P] = sin(alpha[c] * x[n, c, p])
y: f32[n: N, c: C, p: P] = x[n, c, p] + s[n, c, p] * s[n, c, p] / (alpha[c] + 1e-9)
output y
"""
import torch

WORKLOADS = {
    "small": {"N": 2, "C": 24, "P": 256},
    "middle": {"N": 4, "C": 96, "P": 3250},
    "large": {"N": 8, "C": 256, "P": 30720},
}


class Model(torch.nn.Module):
    def __init__(self, C):
        super().__init__()
        self.alpha = torch.nn.Parameter(1.5 * torch.rand(C) + 0.5)

    def forward(self, x):
        a = self.alpha[:, None]
        return x + torch.sin(a * x).pow(2) / (a + 1e-9)


def get_inputs(N=4, C=96, P=3250):
    return [3 * torch.randn(N, C, P)]


def get_init_inputs(N=4, C=96, P=3250):
    return [C]
