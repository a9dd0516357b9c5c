"""A U-net's way up: the coarse features twice as large, then joined with the skip connection's.

input x: f16[N, C, H, W] ~ normal
input skip: f16[N, K, 2 * H, 2 * W] ~ normal
y: f16[n: N, c: C + K, h: 2 * H, w: 2 * W] = select(c < C, x[n, c, h / 2, w / 2], skip[n, c - C, h, w])
output y
"""
import torch

WORKLOADS = {
    "small": {"N": 2, "C": 16, "K": 8, "H": 12, "W": 12},
    "middle": {"N": 2, "C": 128, "K": 64, "H": 47, "W": 47},
    "large": {"N": 4, "C": 256, "K": 128, "H": 166, "W": 166},
}


class Model(torch.nn.Module):
    def forward(self, x, skip):
        N, C, H, W = x.shape
        large = x[:, :, :, None, :, None].expand(N, C, H, 2, W, 2).reshape(N, C, 2 * H, 2 * W)
        return torch.cat([large, skip], dim=1)


def get_inputs(N=2, C=128, K=64, H=47, W=47):
    return [torch.randn(N, C, H, W, dtype=torch.float16), torch.randn(N, K, 2 * H, 2 * W, dtype=torch.float16)]
