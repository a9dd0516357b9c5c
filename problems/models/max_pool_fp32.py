"""A max pooling of three by three with a stride of two, after a ReLU.

input x: f32[N, C, 2 * H, 2 * W] ~ normal
m: f32[n: N, c: C, h: H, w: W] = max[i: 3, j: 3](select(0 <= 2 * h + i - 1 and 0 <= 2 * w + j - 1, x[n, c, 2 * h + i - 1, 2 * w + j - 1], -inf))
y: f32[n: N, c: C, h: H, w: W] = max(m[n, c, h, w], 0)
output y
"""
import torch
import torch.nn.functional as F

WORKLOADS = {
    "small": {"N": 2, "C": 8, "H": 18, "W": 18},
    "middle": {"N": 4, "C": 64, "H": 44, "W": 44},
    "large": {"N": 16, "C": 128, "H": 110, "W": 110},
}


class Model(torch.nn.Module):
    def forward(self, x):
        return F.max_pool2d(F.relu(x), 3, 2, 1)


def get_inputs(N=4, C=64, H=44, W=44):
    return [torch.randn(N, C, 2 * H, 2 * W)]
