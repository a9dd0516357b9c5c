"""SwiGLU of a packed projection: the second half, gated by SiLU of the first.

input x: bf16[R, 2 * C] ~ normal
y: bf16[r: R, c: C] = bf16(f32(x[r, c]) / (1 + exp(-f32(x[r, c]))) * f32(x[r, c + C]))
output y
"""
import torch
import torch.nn.functional as F

WORKLOADS = {
    "small": {"R": 6, "C": 2816},
    "middle": {"R": 296, "C": 5632},
    "large": {"R": 5824, "C": 14336},
}


class Model(torch.nn.Module):
    def forward(self, x):
        gate, up = x.float().chunk(2, dim=-1)
        return (F.silu(gate) * up).to(x.dtype)


def get_inputs(R=296, C=5632):
    return [torch.randn(R, 2 * C, dtype=torch.bfloat16)]
