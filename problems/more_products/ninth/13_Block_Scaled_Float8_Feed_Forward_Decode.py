import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """A gated feed-forward for four decoded rows with float8_e4m3fn weights that carry one float32 scale per 128 by 128
    block (the last blocks are cut, no width is a multiple of 128): weights are dequantised to bfloat16, gate and up in
    one product, SiLU, down, residual."""

    def __init__(self, dim, hidden, block):
        super().__init__()
        self.block = block
        for name, n, k in (("gate_up", 2 * hidden, dim), ("down", dim, hidden)):
            self.register_buffer(name, (100 * torch.randn(n, k)).clamp(-448, 448).to(torch.float8_e4m3fn))
            scale = (0.5 + torch.rand(-(-n // block), -(-k // block))) / (100 * k**0.5)
            self.register_buffer(name + "_scale", scale)

    def dequantise(self, weight, scale):
        n, k = weight.shape
        scale = scale.repeat_interleave(self.block, 0)[:n].repeat_interleave(self.block, 1)[:, :k]
        return (weight.float() * scale).to(torch.bfloat16)

    def forward(self, x):
        gate, up = F.linear(x, self.dequantise(self.gate_up, self.gate_up_scale)).chunk(2, dim=-1)
        h = F.silu(gate) * up
        return x + F.linear(h, self.dequantise(self.down, self.down_scale))


ROWS, DIM, HIDDEN = 4, 2056, 2500


def get_inputs():
    return [torch.randn(ROWS, DIM).to(torch.bfloat16)]


def get_init_inputs():
    return [DIM, HIDDEN, 128]
