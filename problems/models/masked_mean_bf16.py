"""A sentence's embedding: the mean of its tokens that count, scaled to length one.

input x: bf16[B, S, C] ~ normal
input keep: i64[B, S] ~ integers(0, 2)
n: i64[b: B] = sum[s: S](keep[b, s])
t: f32[b: B, c: C] = sum[s: S](f32(x[b, s, c]) * f32(keep[b, s]))
y: f32[b: B, c: C] = t[b, c] / f32(max(n[b], 1))
l: f32[b: B] = sum[c: C](y[b, c] * y[b, c])
z: f32[b: B, c: C] = y[b, c] / max(sqrt(l[b]), 1e-12)
output z
"""
import torch
import torch.nn.functional as F

WORKLOADS = {
    "small": {"B": 4, "S": 16, "C": 768},
    "middle": {"B": 16, "S": 300, "C": 1024},
    "large": {"B": 48, "S": 5000, "C": 1024},
}


class Model(torch.nn.Module):
    def forward(self, x, keep):
        total = (x.float() * keep[..., None].float()).sum(1)
        return F.normalize(total / keep.sum(1, keepdim=True).clamp(min=1).float(), dim=-1)


def get_inputs(B=16, S=300, C=1024):
    return [torch.randn(B, S, C, dtype=torch.bfloat16), torch.randint(0, 2, (B, S))]
