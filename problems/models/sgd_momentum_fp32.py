"""A step of SGD with Nesterov momentum and weight decay.

input grad: f32[N] ~ normal(0, 0.1)
state p: f32[N] ~ normal
state m: f32[N] ~ normal(0, 0.1)
g: f32[i: N] = grad[i] + 0.0005 * p[i]
nm: f32[i: N] = 0.9 * m[i] + g[i]
np: f32[i: N] = p[i] - 0.01 * (g[i] + 0.9 * nm[i])
weights: f16[i: N] = f16(np[i])
output weights
update p = np
update m = nm
"""
import torch

WORKLOADS = {
    "small": {"N": 4600},
    "middle": {"N": 460000},
    "large": {"N": 23000000},
}


class Model(torch.nn.Module):
    def __init__(self, N):
        super().__init__()
        self.register_buffer("p", torch.randn(N))
        self.register_buffer("m", 0.1 * torch.randn(N))

    def forward(self, grad):
        g = grad + 0.0005 * self.p
        self.m.copy_(0.9 * self.m + g)
        self.p.copy_(self.p - 0.01 * (g + 0.9 * self.m))
        return self.p.half()


def get_inputs(N=460000):
    return [0.1 * torch.randn(N)]


def get_init_inputs(N=460000):
    return [N]
