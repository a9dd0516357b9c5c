"""The moving average of a model's bf16 weights, kept in fp32.

input weight: bf16[N] ~ normal
state average: f32[N] ~ normal
new: f32[i: N] = average[i] + 0.001 * (f32(weight[i]) - average[i])
y: bf16[i: N] = bf16(new[i])
output y
update average = new
"""
import torch

WORKLOADS = {
    "small": {"N": 8400},
    "middle": {"N": 840000},
    "large": {"N": 42000000},
}


class Model(torch.nn.Module):
    def __init__(self, N):
        super().__init__()
        self.register_buffer("average", torch.randn(N))

    def forward(self, weight):
        self.average.copy_(self.average + 0.001 * (weight.float() - self.average))
        return self.average.bfloat16()


def get_inputs(N=840000):
    return [torch.randn(N, dtype=torch.bfloat16)]


def get_init_inputs(N=840000):
    return [N]
