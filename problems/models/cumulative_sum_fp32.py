"""The running sums of rows, and what is left of each row after them.

input x: f32[R, C] ~ normal
y: f32[r: R, c: C] = cumsum[c](x[r, c])
z: f32[r: R, c: C] = cumsum[c, reverse](x[r, c])
output y, z
"""
import torch

WORKLOADS = {
    "small": {"R": 8, "C": 1024},
    "middle": {"R": 204, "C": 4096},
    "large": {"R": 1280, "C": 32768},
}


class Model(torch.nn.Module):
    def forward(self, x):
        return x.cumsum(-1), x.flip(-1).cumsum(-1).flip(-1)


def get_inputs(R=204, C=4096):
    return [torch.randn(R, C)]
