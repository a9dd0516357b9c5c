"""Pixels to channels, as before a strided stem.

input x: f32[N, C, H * S, W * S] ~ normal
y: f32[n: N, c: C * S * S, h: H, w: W] = x[n, c / (S * S), h * S + c / S % S, w * S + c % S]
output y
"""
import torch
import torch.nn.functional as F

WORKLOADS = {
    "small": {"N": 2, "C": 3, "H": 8, "W": 16, "S": 4},
    "middle": {"N": 8, "C": 3, "H": 56, "W": 58, "S": 4},
    "large": {"N": 64, "C": 3, "H": 144, "W": 141, "S": 4},
}


class Model(torch.nn.Module):
    def forward(self, x, S):
        return F.pixel_unshuffle(x, S)


def get_inputs(N=8, C=3, H=56, W=58, S=4):
    return [torch.randn(N, C, H * S, W * S), S]
