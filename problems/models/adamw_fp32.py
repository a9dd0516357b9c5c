"""A step of AdamW on the main weights, with the bf16 weights that the next forward reads.

input grad: bf16[N] ~ normal(0, 0.1)
state p: f32[N] ~ normal
state m: f32[N] ~ normal(0, 0.1)
state v: f32[N] ~ uniform(0, 0.02)
nm: f32[i: N] = 0.9 * m[i] + 0.1 * f32(grad[i])
nv: f32[i: N] = 0.95 * v[i] + 0.05 * f32(grad[i]) * f32(grad[i])
np: f32[i: N] = p[i] * 0.9999 - 0.001 * (nm[i] / 0.6513215599) / (sqrt(nv[i] / 0.4012630607616213) + 1e-8)
weights: bf16[i: N] = bf16(np[i])
output weights
update p = np
update m = nm
update v = nv
"""
import torch

WORKLOADS = {
    "small": {"N": 3600},
    "middle": {"N": 360000},
    "large": {"N": 18000000},
}


class Model(torch.nn.Module):
    def __init__(self, N):
        super().__init__()
        self.register_buffer("p", torch.randn(N))
        self.register_buffer("m", 0.1 * torch.randn(N))
        self.register_buffer("v", 0.02 * torch.rand(N))

    def forward(self, grad):
        g = grad.float()
        self.m.copy_(0.9 * self.m + 0.1 * g)
        self.v.copy_(0.95 * self.v + 0.05 * g * g)
        step = (self.m / 0.6513215599) / ((self.v / 0.4012630607616213).sqrt() + 1e-8)
        self.p.copy_(self.p * 0.9999 - 0.001 * step)
        return self.p.bfloat16()


def get_inputs(N=360000):
    return [0.1 * torch.randn(N, dtype=torch.bfloat16)]


def get_init_inputs(N=360000):
    return [N]
