import math
import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH, C_IN, C_OUT, HW = 32, 1536, 768, 196


class Model(nn.Module):
    """NFNet pointwise layer with scaled weight standardisation after a scaled GELU (channels first): forward and written-out backward."""

    def __init__(self, c_in, c_out):
        super().__init__()
        self.weight = nn.Parameter(0.05 * torch.randn(c_out, c_in) + 0.02)
        self.gain = nn.Parameter(1.0 + 0.1 * torch.randn(c_out, 1))
        self.bias = nn.Parameter(0.1 * torch.randn(c_out, 1))
        self.act_gain = 1.7015

    def forward(self, x, dy):
        centred = self.weight - self.weight.mean(1, keepdim=True)
        r = torch.rsqrt(centred.pow(2).sum(1, keepdim=True) + 1e-4)
        unit = centred * r
        w = unit * self.gain
        h = F.gelu(x) * self.act_gain
        y = torch.matmul(w, h) + self.bias

        d_bias = dy.sum(dim=(0, 2))
        d_w = torch.einsum("bon,bin->oi", dy, h)
        d_h = torch.matmul(w.t(), dy)
        cdf = 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0)))
        pdf = torch.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)
        d_x = d_h * self.act_gain * (cdf + x * pdf)
        d_gain = (d_w * unit).sum(1, keepdim=True)
        d_u = d_w * self.gain
        d_weight = r * (d_u - d_u.mean(1, keepdim=True) - unit * (d_u * unit).sum(1, keepdim=True))
        return y, d_x, d_weight, d_gain, d_bias


def get_inputs():
    return [torch.randn(BATCH, C_IN, HW), 0.1 * torch.randn(BATCH, C_OUT, HW)]


def get_init_inputs():
    return [C_IN, C_OUT]
