import math
import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Edge message of an equivariant potential: radial MLP on a Bessel basis, channelwise product with harmonics through a coupling tensor, per-degree mixing."""

    def __init__(self, channels, basis, width, cutoff):
        super().__init__()
        self.cutoff = cutoff
        self.register_buffer("freq", math.pi * torch.arange(1, basis + 1).float())
        self.r1 = nn.Linear(basis, width, bias=False)
        self.r2 = nn.Linear(width, width, bias=False)
        self.r3 = nn.Linear(width, channels, bias=False)
        for r in (self.r1, self.r2, self.r3):
            nn.init.normal_(r.weight, std=1.7 / r.in_features ** 0.5)
        self.coupling = nn.Parameter(0.3 * torch.randn(9, 9, 9) * (torch.rand(9, 9, 9) < 0.3).float())
        self.mix = nn.Parameter(torch.randn(3, channels, channels) / channels ** 0.5)

    def forward(self, x, sh, r):
        u = r[:, None] / self.cutoff
        bessel = math.sqrt(2.0 / self.cutoff) * torch.sin(self.freq * u) / r[:, None]
        cut = 1.0 - 10.0 * u ** 3 + 15.0 * u ** 4 - 6.0 * u ** 5
        h = F.silu(self.r1(bessel * cut))
        radial = self.r3(F.silu(self.r2(h)))
        y = torch.einsum("eci,ej,ijk->eck", x, sh, self.coupling) * radial[:, :, None]
        parts = y.split([1, 3, 5], dim=-1)
        return torch.cat([torch.einsum("eck,cd->edk", p, self.mix[l]) for l, p in enumerate(parts)], dim=-1)


EDGES, CHANNELS = 4096, 128


def get_inputs():
    return [
        torch.randn(EDGES, CHANNELS, 9),
        torch.randn(EDGES, 9),
        0.8 + 3.7 * torch.rand(EDGES),
    ]


def get_init_inputs():
    return [CHANNELS, 8, 64, 5.0]
