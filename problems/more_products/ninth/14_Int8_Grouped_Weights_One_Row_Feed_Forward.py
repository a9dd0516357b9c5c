import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """A feed-forward for one decoded row with int8 weights in groups of 32 along K, each group with a half scale and an
    int8 zero point: layer norm, dequantised up projection, GELU, dequantised down projection, bias, residual, in half
    precision."""

    def __init__(self, dim, hidden, group):
        super().__init__()
        self.group = group
        self.norm = nn.LayerNorm(dim, dtype=torch.float16)
        for name, n, k in (("up", hidden, dim), ("down", dim, hidden)):
            self.register_buffer(name, torch.randint(-128, 128, (n, k), dtype=torch.int8))
            self.register_buffer(name + "_zero", torch.randint(-8, 9, (n, k // group), dtype=torch.int8))
            self.register_buffer(name + "_scale", ((0.75 + 0.5 * torch.rand(n, k // group)) / (74 * k**0.5)).half())
            self.register_buffer(name + "_bias", (0.1 * torch.randn(n)).half())

    def dequantise(self, q, zero, scale):
        n, k = q.shape
        w = q.reshape(n, k // self.group, self.group).half() - zero[:, :, None].half()
        return (w * scale[:, :, None]).reshape(n, k)

    def forward(self, x):
        h = self.norm(x)
        h = F.linear(h, self.dequantise(self.up, self.up_zero, self.up_scale), self.up_bias)
        h = F.gelu(h)
        return x + F.linear(h, self.dequantise(self.down, self.down_zero, self.down_scale), self.down_bias)


ROWS, DIM, HIDDEN, GROUP = 1, 1600, 6400, 32


def get_inputs():
    return [torch.randn(ROWS, DIM).half()]


def get_init_inputs():
    return [DIM, HIDDEN, GROUP]
