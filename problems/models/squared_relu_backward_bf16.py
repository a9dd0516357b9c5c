"""The gradient of a squared ReLU, and the sum over rows that is its bias's.

input dy: bf16[R, C] ~ normal
input x: bf16[R, C] ~ normal
dx: bf16[r: R, c: C] = bf16(2 * max(f32(x[r, c]), 0) * f32(dy[r, c]))
dbias: f32[c: C] = sum[r: R](2 * max(f32(x[r, c]), 0) * f32(dy[r, c]))
output dx, dbias
"""
import torch
import torch.nn.functional as F

WORKLOADS = {
    "small": {"R": 16, "C": 1024},
    "middle": {"R": 400, "C": 4096},
    "large": {"R": 5120, "C": 16384},
}


class Model(torch.nn.Module):
    def forward(self, dy, x):
        dx = 2 * F.relu(x.float()) * dy.float()
        return dx.to(x.dtype), dx.sum(0)


def get_inputs(R=400, C=4096):
    return [torch.randn(R, C, dtype=torch.bfloat16), torch.randn(R, C, dtype=torch.bfloat16)]
