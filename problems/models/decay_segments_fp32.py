"""A state-space block's decays: running sums within each chunk, and the exponentials that weigh its end.

input a: f32[B, H, N, L] ~ uniform(-0.1, 0)
c: f32[b: B, h: H, n: N, l: L] = cumsum[l](a[b, h, n, l])
y: f32[b: B, h: H, n: N, l: L] = exp(c[b, h, n, L - 1] - c[b, h, n, l])
output c, y
"""
import torch

WORKLOADS = {
    "small": {"B": 2, "H": 4, "N": 4, "L": 256},
    "middle": {"B": 2, "H": 64, "N": 25, "L": 256},
    "large": {"B": 4, "H": 128, "N": 316, "L": 256},
}


class Model(torch.nn.Module):
    def forward(self, a):
        c = a.cumsum(-1)
        return c, torch.exp(c[..., -1:] - c)


def get_inputs(B=2, H=64, N=25, L=256):
    return [-0.1 * torch.rand(B, H, N, L)]
