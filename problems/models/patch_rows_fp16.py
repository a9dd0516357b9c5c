"""The data movement of a patch embedding: an image cut into square patches, each a row.

input x: f16[N, C, H * S, W * S] ~ normal
y: f16[n: N, p: H * W, e: C * S * S] = x[n, e / (S * S), p / W * S + e / S % S, p % W * S + e % S]
output y
"""
import torch

WORKLOADS = {
    "small": {"N": 2, "C": 3, "H": 4, "W": 4, "S": 16},
    "middle": {"N": 16, "C": 3, "H": 14, "W": 15, "S": 16},
    "large": {"N": 160, "C": 3, "H": 32, "W": 32, "S": 16},
}


class Model(torch.nn.Module):
    def forward(self, x, S):
        N, C, h, w = x.shape
        x = x.view(N, C, h // S, S, w // S, S).permute(0, 2, 4, 1, 3, 5)
        return x.reshape(N, (h // S) * (w // S), C * S * S)


def get_inputs(N=16, C=3, H=14, W=15, S=16):
    return [torch.randn(N, C, H * S, W * S, dtype=torch.float16), S]
