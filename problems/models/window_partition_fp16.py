"""A shifted-window block's first step: the image rolled, then cut into windows.

input x: f16[N, H * W, V * W, C] ~ normal
y: f16[n: N, p: H * V, i: W, j: W, c: C] = x[n, (p / V * W + i + W / 2) % (H * W), (p % V * W + j + W / 2) % (V * W), c]
output y
"""
import torch

WORKLOADS = {
    "small": {"N": 2, "H": 2, "V": 2, "W": 7, "C": 64},
    "middle": {"N": 8, "H": 8, "V": 8, "W": 7, "C": 104},
    "large": {"N": 64, "H": 18, "V": 18, "W": 7, "C": 120},
}


class Model(torch.nn.Module):
    def forward(self, x, W):
        N, h, w, C = x.shape
        x = x.roll((-(W // 2), -(W // 2)), dims=(1, 2)).view(N, h // W, W, w // W, W, C)
        return x.permute(0, 1, 3, 2, 4, 5).reshape(N, (h // W) * (w // W), W, W, C)


def get_inputs(N=8, H=8, V=8, W=7, C=104):
    return [torch.randn(N, H * W, V * W, C, dtype=torch.float16), W]
