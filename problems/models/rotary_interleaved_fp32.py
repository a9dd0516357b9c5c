"""Rotary embedding of neighbouring pairs, the angles worked out from positions in the thousands.

input x: f32[B, S, H, 2 * D] ~ normal
input position: i64[S] ~ integers(0, 8192)
param frequency: f32[D] ~ uniform(0, 1)
angle: f32[s: S, d: D] = f32(position[s]) * frequency[d]
y: f32[b: B, s: S, h: H, e: 2 * D] = select(e % 2 == 0, x[b, s, h, e] * cos(angle[s, e / 2]) - x[b, s, h, e + 1] * sin(angle[s, e / 2]), x[b, s, h, e] * cos(angle[s, e / 2]) + x[b, s, h, e - 1] * sin(angle[s, e / 2]))
output y
"""
import torch

WORKLOADS = {
    "small": {"B": 2, "S": 24, "H": 4, "D": 32},
    "middle": {"B": 2, "S": 306, "H": 16, "D": 64},
    "large": {"B": 4, "S": 3840, "H": 32, "D": 64},
}


class Model(torch.nn.Module):
    def __init__(self, D):
        super().__init__()
        self.register_buffer("frequency", 10000.0 ** (-torch.arange(D, dtype=torch.float32) / D))

    def forward(self, x, position):
        angle = position[:, None].float() * self.frequency
        cos, sin = angle.cos()[:, None], angle.sin()[:, None]
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.stack([a * cos - b * sin, b * cos + a * sin], dim=-1).flatten(-2)


def get_inputs(B=2, S=306, H=16, D=64):
    return [torch.randn(B, S, H, 2 * D), torch.randint(0, 8192, (S,))]


def get_init_inputs(B=2, S=306, H=16, D=64):
    return [D]
