"""The gradient of masked, scaled scores, from that of a softmax's weights.

input dy: f16[B, H, Q, K] ~ normal
input y: f16[B, H, Q, K] ~ uniform(0, 0.02)
input keep: bool[B, K] ~ integers(0, 4)
d: f32[b: B, h: H, q: Q] = sum[k: K](f32(dy[b, h, q, k]) * f32(y[b, h, q, k]))
dx: f16[b: B, h: H, q: Q, k: K] = f16(select(keep[b, k], 0.125 * f32(y[b, h, q, k]) * (f32(dy[b, h, q, k]) - d[b, h, q]), 0))
output dx
"""
import torch

WORKLOADS = {
    "small": {"B": 2, "H": 2, "Q": 64, "K": 64},
    "middle": {"B": 2, "H": 12, "Q": 224, "K": 320},
    "large": {"B": 16, "H": 16, "Q": 328, "K": 1000},
}


class Model(torch.nn.Module):
    def forward(self, dy, y, keep):
        dy, y = dy.float(), y.float()
        dx = 0.125 * y * (dy - (dy * y).sum(-1, keepdim=True))
        return dx.masked_fill(~keep[:, None, None], 0.0).half()


def get_inputs(B=2, H=12, Q=224, K=320):
    return [torch.randn(B, H, Q, K, dtype=torch.float16), 0.02 * torch.rand(B, H, Q, K, dtype=torch.float16),
            torch.randint(0, 4, (B, K)) > 0]
