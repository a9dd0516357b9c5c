"""Weights of four bits, two a byte, with a scale and a zero point for each group, to bf16.

input packed: u8[R, G, D] ~ integers(0, 256)
input scale: bf16[R, G] ~ uniform(0.01, 0.02)
input zero: u8[R, G] ~ integers(0, 16)
w: u8[r: R, g: G, e: 2 * D] = select(e % 2 == 0, packed[r, g, e / 2] % 16, packed[r, g, e / 2] / 16)
y: bf16[r: R, g: G, e: 2 * D] = bf16((f32(w[r, g, e]) - f32(zero[r, g])) * f32(scale[r, g]))
output y
"""
import torch

WORKLOADS = {
    "small": {"R": 20, "G": 16, "D": 64},
    "middle": {"R": 976, "G": 32, "D": 64},
    "large": {"R": 24576, "G": 64, "D": 64},
}


class Model(torch.nn.Module):
    def forward(self, packed, scale, zero):
        w = torch.stack([packed & 15, packed >> 4], dim=-1).flatten(-2)
        return ((w.float() - zero[..., None].float()) * scale[..., None].float()).bfloat16()


def get_inputs(R=976, G=32, D=64):
    return [torch.randint(0, 256, (R, G, D), dtype=torch.uint8), (0.01 * torch.rand(R, G) + 0.01).bfloat16(),
            torch.randint(0, 16, (R, G), dtype=torch.uint8)]
