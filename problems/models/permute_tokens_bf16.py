"""A mixture of experts' first step: tokens laid out by expert, each scaled by its router's probability.

input x: bf16[T, C] ~ normal
input order: i64[N] ~ integers(0, T)
input probability: f32[N] ~ uniform(0, 1)
y: bf16[n: N, c: C] = bf16(f32(x[order[n], c]) * probability[n])
output y
"""
import torch

WORKLOADS = {
    "small": {"T": 16, "N": 32, "C": 1024},
    "middle": {"T": 600, "N": 1200, "C": 2816},
    "large": {"T": 10240, "N": 20480, "C": 8192},
}


class Model(torch.nn.Module):
    def forward(self, x, order, probability):
        return (x[order].float() * probability[:, None]).to(x.dtype)


def get_inputs(T=600, N=1200, C=2816):
    return [torch.randn(T, C, dtype=torch.bfloat16), torch.randint(0, T, (N,)), torch.rand(N)]
