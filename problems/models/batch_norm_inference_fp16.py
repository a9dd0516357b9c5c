"""A batch norm with running statistics, then a residual and ReLU.

input x: f16[N, C, P] ~ normal
input residual: f16[N, C, P] ~ normal
param weight: f32[C] ~ normal(1, 0.1)
param bias: f32[C] ~ normal(0, 0.1)
param mean: f32[C] ~ normal(0, 0.1)
param var: f32[C] ~ uniform(0.5, 1.5)
y: f16[n: N, c: C, p: P] = f16(max((f32(x[n, c, p]) - mean[c]) * rsqrt(var[c] + 1e-5) * weight[c] + bias[c] + f32(residual[n, c, p]), 0))
output y
"""
import torch
import torch.nn.functional as F

WORKLOADS = {
    "small": {"N": 2, "C": 64, "P": 128},
    "middle": {"N": 4, "C": 128, "P": 3136},
    "large": {"N": 32, "C": 256, "P": 10000},
}


class Model(torch.nn.Module):
    def __init__(self, C):
        super().__init__()
        self.weight = torch.nn.Parameter(1 + 0.1 * torch.randn(C))
        self.bias = torch.nn.Parameter(0.1 * torch.randn(C))
        self.register_buffer("mean", 0.1 * torch.randn(C))
        self.register_buffer("var", torch.rand(C) + 0.5)

    def forward(self, x, residual):
        y = F.batch_norm(x.float(), self.mean, self.var, self.weight, self.bias, False, 0.0, 1e-5)
        return F.relu(y + residual).half()


def get_inputs(N=4, C=128, P=3136):
    return [torch.randn(N, C, P, dtype=torch.float16), torch.randn(N, C, P, dtype=torch.float16)]


def get_init_inputs(N=4, C=128, P=3136):
    return [C]
