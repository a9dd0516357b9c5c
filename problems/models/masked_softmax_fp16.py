"""Attention scores, scaled, with a mask of the keys, to weights.

input scores: f16[B, H, Q, K] ~ normal
input keep: bool[B, K] ~ integers(0, 4)
z: f32[b: B, h: H, q: Q, k: K] = select(keep[b, k], f32(scores[b, h, q, k]) * 0.125, -10000)
m: f32[b: B, h: H, q: Q] = max[k: K](z[b, h, q, k])
s: f32[b: B, h: H, q: Q] = sum[k: K](exp(z[b, h, q, k] - m[b, h, q]))
y: f16[b: B, h: H, q: Q, k: K] = f16(exp(z[b, h, q, k] - m[b, h, q]) / s[b, h, q])
output y
"""
import torch

WORKLOADS = {
    "small": {"B": 2, "H": 2, "Q": 64, "K": 96},
    "middle": {"B": 2, "H": 12, "Q": 328, "K": 320},
    "large": {"B": 16, "H": 16, "Q": 496, "K": 1000},
}


class Model(torch.nn.Module):
    def forward(self, scores, keep):
        z = (scores.float() * 0.125).masked_fill(~keep[:, None, None], -10000.0)
        return z.softmax(-1).half()


def get_inputs(B=2, H=12, Q=328, K=320):
    return [torch.randn(B, H, Q, K, dtype=torch.float16), torch.randint(0, 4, (B, K)) > 0]
