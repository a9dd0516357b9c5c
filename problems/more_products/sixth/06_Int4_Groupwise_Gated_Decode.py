import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Decode-time gate/up projection with AWQ-like 4-bit weights packed two to a byte, group scales and zeros."""

    def __init__(self, in_f, inter, group):
        super().__init__()
        self.group, self.in_f, self.inter = group, in_f, inter
        n = 2 * inter
        self.register_buffer("qweight", torch.randint(0, 256, (n, in_f // 2)).to(torch.uint8))
        self.register_buffer("scales", ((0.5 + torch.rand(n, in_f // group)) / (4.6 * in_f ** 0.5)).half())
        self.register_buffer("zeros", torch.randint(5, 11, (n, in_f // group)).to(torch.uint8))

    def forward(self, x):
        lo = self.qweight & 15
        hi = self.qweight >> 4
        q = torch.stack((lo, hi), dim=-1).reshape(2 * self.inter, -1, self.group)
        w = (q.to(x.dtype) - self.zeros.to(x.dtype).unsqueeze(-1)) * self.scales.unsqueeze(-1)
        w = w.reshape(2 * self.inter, self.in_f)
        y = F.linear(x, w)
        gate, up = y.chunk(2, dim=-1)
        return F.silu(gate) * up


def get_inputs():
    return [torch.randn(4, 4096).half()]


def get_init_inputs():
    return [4096, 5504, 128]
