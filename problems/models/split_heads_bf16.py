"""A packed projection split into queries, keys and values, heads before positions.

input x: bf16[B, S, (H + 2 * K) * D] ~ normal
q: bf16[b: B, h: H, s: S, d: D] = x[b, s, h * D + d]
k: bf16[b: B, h: K, s: S, d: D] = x[b, s, (h + H) * D + d]
v: bf16[b: B, h: K, s: S, d: D] = x[b, s, (h + H + K) * D + d]
output q, k, v
"""
import torch

WORKLOADS = {
    "small": {"B": 2, "S": 16, "H": 32, "K": 8, "D": 16},
    "middle": {"B": 2, "S": 204, "H": 32, "K": 8, "D": 128},
    "large": {"B": 4, "S": 5120, "H": 32, "K": 8, "D": 128},
}


class Model(torch.nn.Module):
    def forward(self, x, H, K):
        B, S, C = x.shape
        heads = x.view(B, S, H + 2 * K, C // (H + 2 * K)).transpose(1, 2)
        return heads[:, :H].contiguous(), heads[:, H:H + K].contiguous(), heads[:, H + K:].contiguous()


def get_inputs(B=2, S=204, H=32, K=8, D=128):
    return [torch.randn(B, S, (H + 2 * K) * D, dtype=torch.bfloat16), H, K]
