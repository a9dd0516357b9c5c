"""A step of Lion with weight decay, weights and momentum in bf16.

input grad: bf16[N] ~ normal(0, 0.1)
state p: bf16[N] ~ normal
state m: bf16[N] ~ normal(0, 0.1)
np: bf16[i: N] = bf16(f32(p[i]) * 0.999 - 0.001 * sign(0.9 * f32(m[i]) + 0.1 * f32(grad[i])))
nm: bf16[i: N] = bf16(0.99 * f32(m[i]) + 0.01 * f32(grad[i]))
change: f32[i: N] = f32(np[i]) - f32(p[i])
square: f32[] = sum[i: N](change[i] * change[i])
norm: f32[] = sqrt(square[])
output norm
update p = np
update m = nm
"""
import torch

WORKLOADS = {
    "small": {"N": 10000},
    "middle": {"N": 1000000},
    "large": {"N": 50000000},
}


class Model(torch.nn.Module):
    def __init__(self, N):
        super().__init__()
        self.register_buffer("p", torch.randn(N).bfloat16())
        self.register_buffer("m", (0.1 * torch.randn(N)).bfloat16())

    def forward(self, grad):
        p, m, g = self.p.float(), self.m.float(), grad.float()
        self.p.copy_((p * 0.999 - 0.001 * torch.sign(0.9 * m + 0.1 * g)).bfloat16())
        self.m.copy_((0.99 * m + 0.01 * g).bfloat16())
        return (self.p.float() - p).pow(2).sum().sqrt()


def get_inputs(N=1000000):
    return [0.1 * torch.randn(N, dtype=torch.bfloat16)]


def get_init_inputs(N=1000000):
    return [N]
