import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """One layer of an equivariant interatomic potential with scalars and vectors: Bessel functions of the edge lengths
    go through an MLP that makes five weights per channel, sender features are gathered and multiplied with the
    directions, messages are summed at the receivers, then channel mixing, a gate from the scalars and residuals."""

    def __init__(self, channels, basis, hidden, cutoff, neighbours):
        super().__init__()
        self.c, self.cutoff, self.neighbours = channels, cutoff, neighbours
        self.register_buffer("frequency", torch.arange(1, basis + 1).float() * math.pi)
        self.r1 = nn.Parameter(4 * torch.randn(basis, hidden) / basis**0.5)
        self.r2 = nn.Parameter(2 * torch.randn(hidden, hidden) / hidden**0.5)
        self.r3 = nn.Parameter(2 * torch.randn(hidden, 5 * channels) / hidden**0.5)
        self.mix_s = nn.Linear(channels, 2 * channels)
        self.mix_v = nn.Parameter(torch.randn(channels, channels) / channels**0.5)

    def forward(self, scalars, vectors, relative, sender, receiver):
        length = relative.pow(2).sum(-1, keepdim=True).sqrt()
        unit = (relative / length)[:, None, :]
        u = length / self.cutoff
        envelope = 1 - 10 * u**3 + 15 * u**4 - 6 * u**5
        bessel = math.sqrt(2 / self.cutoff) * torch.sin(self.frequency * u) / length * envelope
        w = F.silu(F.silu(bessel @ self.r1) @ self.r2) @ self.r3
        w = w.reshape(-1, 5, self.c, 1)

        s, v = scalars[sender][..., None], vectors[sender]
        ms = w[:, 0] * s + w[:, 1] * (v * unit).sum(-1, keepdim=True)
        mv = w[:, 2] * s * unit + w[:, 3] * v + w[:, 4] * torch.linalg.cross(v, unit.expand_as(v))
        norm = 1 / math.sqrt(self.neighbours)
        agg_s = torch.zeros_like(scalars).index_add(0, receiver, ms[..., 0]) * norm
        agg_v = torch.zeros_like(vectors).index_add(0, receiver, mv) * norm

        new_s, gate = self.mix_s(agg_s).chunk(2, dim=-1)
        new_v = torch.einsum("ncx,cd->ndx", agg_v, self.mix_v)
        return scalars + F.silu(new_s), vectors + torch.sigmoid(gate)[..., None] * new_v


ATOMS, EDGES, CHANNELS, BASIS, HIDDEN, CUTOFF = 1500, 12000, 64, 8, 64, 5.0


def get_inputs():
    direction = torch.randn(EDGES, 3)
    direction = direction / direction.norm(dim=-1, keepdim=True)
    return [
        torch.randn(ATOMS, CHANNELS),
        torch.randn(ATOMS, CHANNELS, 3),
        direction * (0.8 + 3.8 * torch.rand(EDGES, 1)),
        torch.randint(0, ATOMS, (EDGES,)),
        torch.randint(0, ATOMS, (EDGES,)),
    ]


def get_init_inputs():
    return [CHANNELS, BASIS, HIDDEN, CUTOFF, 8]
