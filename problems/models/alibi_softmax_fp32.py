"""Scores with a penalty for distance, a slope for each head, and a softmax.

input scores: f32[B, H, S, S] ~ normal
input slopes: f32[H] ~ uniform(0.01, 0.5)
z: f32[b: B, h: H, q: S, k: S] = scores[b, h, q, k] - slopes[h] * f32(abs(q - k))
m: f32[b: B, h: H, q: S] = max[k: S](z[b, h, q, k])
s: f32[b: B, h: H, q: S] = sum[k: S](exp(z[b, h, q, k] - m[b, h, q]))
y: f32[b: B, h: H, q: S, k: S] = exp(z[b, h, q, k] - m[b, h, q]) / s[b, h, q]
output y
"""
import torch

WORKLOADS = {
    "small": {"B": 2, "H": 2, "S": 56},
    "middle": {"B": 2, "H": 12, "S": 230},
    "large": {"B": 2, "H": 16, "S": 1400},
}


class Model(torch.nn.Module):
    def forward(self, scores, slopes):
        at = torch.arange(scores.shape[-1], device=scores.device)
        distance = (at[:, None] - at).abs().float()
        return (scores - slopes[:, None, None] * distance).softmax(-1)


def get_inputs(B=2, H=12, S=230):
    return [torch.randn(B, H, S, S), 0.49 * torch.rand(H) + 0.01]
