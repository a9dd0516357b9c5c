import math

import torch
import torch.nn as nn


def legendre(degrees, orders, cos_theta):
    """Orthonormal associated Legendre functions as (orders, degrees, latitudes)."""
    x = cos_theta.double()
    s = (1 - x * x).clamp_min(0).sqrt()
    p = torch.zeros(orders, degrees, len(x), dtype=torch.float64)
    p[0, 0] = math.sqrt(1 / (4 * math.pi))
    for m in range(1, orders):
        p[m, m] = -math.sqrt((2 * m + 1) / (2 * m)) * s * p[m - 1, m - 1]
    for m in range(orders - 1):
        p[m, m + 1] = math.sqrt(2 * m + 3) * x * p[m, m]
    for m in range(orders):
        for l in range(m + 2, degrees):
            a = math.sqrt((4 * l * l - 1) / (l * l - m * m))
            b = math.sqrt(((l - 1) ** 2 - m * m) / (4 * (l - 1) ** 2 - 1))
            p[m, l] = a * (x * p[m, l - 1] - b * p[m, l - 2])
    return p


class Model(nn.Module):
    """Spectral layer of a spherical Fourier neural operator (weather model on a 2-degree grid with 91 latitudes and 91
    orders): the Legendre half of the spherical harmonic transform of Fourier coefficients held as real and imaginary
    parts, complex channel mixing with one matrix per degree, and the inverse Legendre transform."""

    def __init__(self, channels, lat):
        super().__init__()
        theta = math.pi * (torch.arange(lat, dtype=torch.float64) + 0.5) / lat
        p = legendre(lat, lat, theta.cos())
        quad = 2 * math.pi * theta.sin() * (math.pi / lat)
        self.register_buffer("forward_p", (p * quad).float())
        self.register_buffer("inverse_p", p.float())
        self.wr = nn.Parameter(torch.randn(lat, channels, channels) / (2 * channels) ** 0.5)
        self.wi = nn.Parameter(torch.randn(lat, channels, channels) / (2 * channels) ** 0.5)

    def forward(self, xr, xi):
        # (batch, channels, latitude, order) -> (batch, channels, degree, order)
        sr = torch.einsum("bckm,mlk->bclm", xr, self.forward_p)
        si = torch.einsum("bckm,mlk->bclm", xi, self.forward_p)
        yr = torch.einsum("bclm,loc->bolm", sr, self.wr) - torch.einsum("bclm,loc->bolm", si, self.wi)
        yi = torch.einsum("bclm,loc->bolm", sr, self.wi) + torch.einsum("bclm,loc->bolm", si, self.wr)
        zr = torch.einsum("bolm,mlk->bokm", yr, self.inverse_p)
        zi = torch.einsum("bolm,mlk->bokm", yi, self.inverse_p)
        return zr, zi


BATCH, CHANNELS, LAT = 2, 192, 91


def get_inputs():
    shape = (BATCH, CHANNELS, LAT, LAT)
    return [torch.randn(shape), torch.randn(shape)]


def get_init_inputs():
    return [CHANNELS, LAT]
