"""Rotary embedding of queries and keys: the halves of a head are turned by an angle of the position.

input q: bf16[B, H, S, 2 * D] ~ normal
input k: bf16[B, K, S, 2 * D] ~ normal
input cos: f32[S, 2 * D] ~ uniform(-1, 1)
input sin: f32[S, 2 * D] ~ uniform(-1, 1)
yq: bf16[b: B, h: H, s: S, d: 2 * D] = bf16(f32(q[b, h, s, d]) * cos[s, d] + select(d < D, -f32(q[b, h, s, d + D]), f32(q[b, h, s, d - D])) * sin[s, d])
yk: bf16[b: B, h: K, s: S, d: 2 * D] = bf16(f32(k[b, h, s, d]) * cos[s, d] + select(d < D, -f32(k[b, h, s, d + D]), f32(k[b, h, s, d - D])) * sin[s, d])
output yq, yk
"""
import torch

WORKLOADS = {
    "small": {"B": 2, "H": 4, "K": 2, "S": 26, "D": 32},
    "middle": {"B": 2, "H": 32, "K": 8, "S": 240, "D": 64},
    "large": {"B": 4, "H": 32, "K": 8, "S": 6144, "D": 64},
}


def rotated(x, cos, sin):
    first, second = x.float().chunk(2, dim=-1)
    return (x.float() * cos + torch.cat([-second, first], dim=-1) * sin).to(x.dtype)


class Model(torch.nn.Module):
    def forward(self, q, k, cos, sin):
        return rotated(q, cos, sin), rotated(k, cos, sin)


def get_inputs(B=2, H=32, K=8, S=240, D=64):
    return [torch.randn(B, H, S, 2 * D, dtype=torch.bfloat16), torch.randn(B, K, S, 2 * D, dtype=torch.bfloat16),
            torch.rand(S, 2 * D) * 2 - 1, torch.rand(S, 2 * D) * 2 - 1]
