"""A mixture of experts' last step: each token's rows of the experts' output, weighted and added.

input x: bf16[N, C] ~ normal
input index: i32[T, K] ~ integers(0, N)
input weight: f32[T, K] ~ uniform(0, 1)
s: f32[t: T, c: C] = sum[k: K](weight[t, k] * f32(x[i64(index[t, k]), c]))
y: bf16[t: T, c: C] = bf16(s[t, c])
output y
"""
import torch

WORKLOADS = {
    "small": {"T": 16, "K": 2, "N": 32, "C": 1024},
    "middle": {"T": 400, "K": 8, "N": 3200, "C": 1408},
    "large": {"T": 6400, "K": 8, "N": 51200, "C": 4096},
}


class Model(torch.nn.Module):
    def forward(self, x, index, weight):
        return (x[index].float() * weight[..., None]).sum(1).to(x.dtype)


def get_inputs(T=400, K=8, N=3200, C=1408):
    return [torch.randn(N, C, dtype=torch.bfloat16), torch.randint(0, N, (T, K), dtype=torch.int32), torch.rand(T, K)]
