"""Weights of int8 with a scale and a zero point for each block, back to fp16.

input q: i8[R, G, D] ~ integers(-128, 128)
input scale: f16[R, G] ~ uniform(0.01, 0.02)
input zero: i8[R, G] ~ integers(-8, 9)
y: f16[r: R, g: G, d: D] = f16((f32(q[r, g, d]) - f32(zero[r, g])) * f32(scale[r, g]))
output y
"""
import torch

WORKLOADS = {
    "small": {"R": 16, "G": 16, "D": 128},
    "middle": {"R": 816, "G": 32, "D": 128},
    "large": {"R": 20480, "G": 64, "D": 128},
}


class Model(torch.nn.Module):
    def forward(self, q, scale, zero):
        return ((q.float() - zero[..., None].float()) * scale[..., None].float()).half()


def get_inputs(R=816, G=32, D=128):
    return [torch.randint(-128, 128, (R, G, D), dtype=torch.int8), 0.01 * torch.rand(R, G).half() + 0.01,
            torch.randint(-8, 9, (R, G), dtype=torch.int8)]
