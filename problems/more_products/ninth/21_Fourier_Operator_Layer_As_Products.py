import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """A layer of a Fourier neural operator on a channels-last grid whose truncated transforms are matrix products with
    sine and cosine tables in real arithmetic: transform along both sides, a complex channel mixing of its own for each
    kept mode, the transform back, plus a pointwise linear map, then GELU."""

    def __init__(self, channels, height, width, modes):
        super().__init__()
        k = torch.arange(modes)
        y = torch.cat((torch.arange(modes), torch.arange(height - modes, height)))
        ax = 2 * math.pi * torch.outer(torch.arange(width), k).remainder(width).float() / width
        ay = 2 * math.pi * torch.outer(torch.arange(height), y).remainder(height).float() / height
        for name, table in (("cx", ax.cos()), ("sx", ax.sin()), ("cy", ay.cos()), ("sy", ay.sin())):
            self.register_buffer(name, table)
        twice = torch.full((modes,), 2.0)
        twice[0] = 1.0
        self.register_buffer("back", twice / (height * width))
        self.wr = nn.Parameter(torch.randn(2 * modes, modes, channels, channels) / channels**0.5)
        self.wi = nn.Parameter(torch.randn(2 * modes, modes, channels, channels) / channels**0.5)
        self.point = nn.Linear(channels, channels)

    def forward(self, x):
        xr = torch.einsum("bhwc,wk->bhkc", x, self.cx)
        xi = -torch.einsum("bhwc,wk->bhkc", x, self.sx)
        fr = torch.einsum("bhkc,hy->bykc", xr, self.cy) + torch.einsum("bhkc,hy->bykc", xi, self.sy)
        fi = torch.einsum("bhkc,hy->bykc", xi, self.cy) - torch.einsum("bhkc,hy->bykc", xr, self.sy)

        gr = torch.einsum("bykc,ykcd->bykd", fr, self.wr) - torch.einsum("bykc,ykcd->bykd", fi, self.wi)
        gi = torch.einsum("bykc,ykcd->bykd", fr, self.wi) + torch.einsum("bykc,ykcd->bykd", fi, self.wr)

        hr = torch.einsum("bykd,hy->bhkd", gr, self.cy) - torch.einsum("bykd,hy->bhkd", gi, self.sy)
        hi = torch.einsum("bykd,hy->bhkd", gi, self.cy) + torch.einsum("bykd,hy->bhkd", gr, self.sy)
        cx, sx = self.cx * self.back, self.sx * self.back
        y = torch.einsum("bhkd,wk->bhwd", hr, cx) - torch.einsum("bhkd,wk->bhwd", hi, sx)
        return F.gelu(y + self.point(x))


BATCH, HEIGHT, WIDTH, CHANNELS, MODES = 4, 85, 85, 48, 12


def get_inputs():
    return [torch.randn(BATCH, HEIGHT, WIDTH, CHANNELS)]


def get_init_inputs():
    return [CHANNELS, HEIGHT, WIDTH, MODES]
