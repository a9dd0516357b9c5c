"""A batch norm with the batch's statistics, which also update the running ones.

input x: f32[N, C, P] ~ normal
param weight: f32[C] ~ normal(1, 0.1)
param bias: f32[C] ~ normal(0, 0.1)
state running_mean: f32[C] ~ normal(0, 0.1)
state running_var: f32[C] ~ uniform(0.5, 1.5)
s: f32[c: C] = sum[n: N, p: P](x[n, c, p])
q: f32[c: C] = sum[n: N, p: P]((x[n, c, p] - s[c] / (N * P)) * (x[n, c, p] - s[c] / (N * P)))
y: f32[n: N, c: C, p: P] = (x[n, c, p] - s[c] / (N * P)) * rsqrt(q[c] / (N * P) + 1e-5) * weight[c] + bias[c]
new_mean: f32[c: C] = 0.1 * (s[c] / (N * P)) + 0.9 * running_mean[c]
new_var: f32[c: C] = 0.1 * (q[c] / (N * P - 1)) + 0.9 * running_var[c]
output y
update running_mean = new_mean
update running_var = new_var
"""
import torch
import torch.nn.functional as F

WORKLOADS = {
    "small": {"N": 2, "C": 24, "P": 256},
    "middle": {"N": 8, "C": 48, "P": 3136},
    "large": {"N": 32, "C": 64, "P": 30976},
}


class Model(torch.nn.Module):
    def __init__(self, C):
        super().__init__()
        self.weight = torch.nn.Parameter(1 + 0.1 * torch.randn(C))
        self.bias = torch.nn.Parameter(0.1 * torch.randn(C))
        self.register_buffer("running_mean", 0.1 * torch.randn(C))
        self.register_buffer("running_var", torch.rand(C) + 0.5)

    def forward(self, x):
        return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, True, 0.1, 1e-5)


def get_inputs(N=8, C=48, P=3136):
    return [torch.randn(N, C, P)]


def get_init_inputs(N=8, C=48, P=3136):
    return [C]
