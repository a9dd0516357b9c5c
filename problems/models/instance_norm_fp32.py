"""An instance norm with a weight and a bias for each channel.

input x: f32[N, C, P] ~ normal
param weight: f32[C] ~ normal(1, 0.1)
param bias: f32[C] ~ normal(0, 0.1)
s: f32[n: N, c: C] = sum[p: P](x[n, c, p])
q: f32[n: N, c: C] = sum[p: P]((x[n, c, p] - s[n, c] / P) * (x[n, c, p] - s[n, c] / P))
y: f32[n: N, c: C, p: P] = (x[n, c, p] - s[n, c] / P) * rsqrt(q[n, c] / P + 1e-5) * weight[c] + bias[c]
output y
"""
import torch
import torch.nn.functional as F

WORKLOADS = {
    "small": {"N": 2, "C": 24, "P": 256},
    "middle": {"N": 4, "C": 96, "P": 3249},
    "large": {"N": 8, "C": 128, "P": 61504},
}


class Model(torch.nn.Module):
    def __init__(self, C):
        super().__init__()
        self.weight = torch.nn.Parameter(1 + 0.1 * torch.randn(C))
        self.bias = torch.nn.Parameter(0.1 * torch.randn(C))

    def forward(self, x):
        return F.instance_norm(x, weight=self.weight, bias=self.bias, eps=1e-5)


def get_inputs(N=4, C=96, P=3249):
    return [torch.randn(N, C, P)]


def get_init_inputs(N=4, C=96, P=3249):
    return [C]
