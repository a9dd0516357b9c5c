"""Attention weights of groups of queries, with a learned sink taking its part of each row's sum.

input scores: f16[B, H, Q, K] ~ normal(0, 2)
param sink: f32[H] ~ normal
m: f32[b: B, h: H, q: Q] = max[k: K](f32(scores[b, h, q, k]))
t: f32[b: B, h: H, q: Q] = max(m[b, h, q], sink[h])
s: f32[b: B, h: H, q: Q] = sum[k: K](exp(f32(scores[b, h, q, k]) - t[b, h, q]))
y: f16[b: B, h: H, q: Q, k: K] = f16(exp(f32(scores[b, h, q, k]) - t[b, h, q]) / (s[b, h, q] + exp(sink[h] - t[b, h, q])))
output y
"""
import torch

WORKLOADS = {
    "small": {"B": 2, "H": 4, "Q": 32, "K": 96},
    "middle": {"B": 2, "H": 16, "Q": 240, "K": 320},
    "large": {"B": 8, "H": 32, "Q": 488, "K": 1000},
}


class Model(torch.nn.Module):
    def __init__(self, H):
        super().__init__()
        self.sink = torch.nn.Parameter(torch.randn(H))

    def forward(self, scores):
        B, H, Q, K = scores.shape
        with_sink = torch.cat([scores.float(), self.sink[:, None, None].expand(B, H, Q, 1)], dim=-1)
        return with_sink.softmax(-1)[..., :K].half()


def get_inputs(B=2, H=16, Q=240, K=320):
    return [2 * torch.randn(B, H, Q, K, dtype=torch.float16)]


def get_init_inputs(B=2, H=16, Q=240, K=320):
    return [H]
