import torch
import torch.nn as nn


class Model(nn.Module):
    """Upper half of a gpt-oss feed-forward for a few rows: RMS norm, a projection whose outputs interleave gate and
    linear part, both clamped, gate * sigmoid(1.702 gate) * (linear + 1), then the result is quantised to float8_e4m3fn
    with one scale per row for the float8 down projection. Returns the float8 rows and their scales."""

    def __init__(self, dim, hidden, limit):
        super().__init__()
        self.limit = limit
        self.norm = nn.Parameter((1 + 0.1 * torch.randn(dim)).to(torch.bfloat16))
        self.weight = nn.Parameter((torch.randn(2 * hidden, dim) / dim**0.5).to(torch.bfloat16))
        self.bias = nn.Parameter((0.1 * torch.randn(2 * hidden)).to(torch.bfloat16))

    def forward(self, x):
        xf = x.float()
        h = (xf * torch.rsqrt(xf.pow(2).mean(-1, keepdim=True) + 1e-5)).to(x.dtype) * self.norm
        h = torch.addmm(self.bias, h, self.weight.t()).float()
        gate = h[..., ::2].clamp(max=self.limit)
        linear = h[..., 1::2].clamp(-self.limit, self.limit)
        y = gate * torch.sigmoid(1.702 * gate) * (linear + 1)
        scale = y.abs().amax(dim=-1, keepdim=True).clamp_min(1e-6) / 448.0
        return (y / scale).clamp(-448.0, 448.0).to(torch.float8_e4m3fn), scale


ROWS, DIM, HIDDEN = 37, 2880, 2880


def get_inputs():
    return [torch.randn(ROWS, DIM).to(torch.bfloat16)]


def get_init_inputs():
    return [DIM, HIDDEN, 7.0]
