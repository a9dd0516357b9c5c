import torch
import torch.nn as nn
import torch.nn.functional as F

RES, CZ, CH = 301, 128, 128


class Model(nn.Module):
    """AlphaFold2 triangle multiplication (outgoing edges): gated, masked projections of the pair tensor,
    contraction over the third residue per channel, LayerNorm, gated output projection, residual."""

    def __init__(self, c_z: int, c_hidden: int):
        super().__init__()
        kw = dict(dtype=torch.bfloat16)
        self.c = c_hidden
        self.norm_in = nn.LayerNorm(c_z, **kw)
        self.ab_p = nn.Linear(c_z, 2 * c_hidden, **kw)
        self.ab_g = nn.Linear(c_z, 2 * c_hidden, **kw)
        self.norm_out = nn.LayerNorm(c_hidden, **kw)
        self.z = nn.Linear(c_hidden, c_z, **kw)
        self.g = nn.Linear(c_z, c_z, **kw)
        for lin in (self.ab_p, self.ab_g, self.z, self.g):
            nn.init.normal_(lin.weight, std=lin.in_features ** -0.5)

    def forward(self, pair, mask):
        n = self.norm_in(pair)
        m2 = (mask.unsqueeze(-1) * mask.unsqueeze(-2)).unsqueeze(-1)
        ab = torch.sigmoid(self.ab_g(n)) * self.ab_p(n) * m2
        a, b = ab.split(self.c, dim=-1)
        t = torch.einsum("bikc,bjkc->bijc", a, b)
        out = self.z(self.norm_out(t)) * torch.sigmoid(self.g(n))
        return pair + out


def get_inputs():
    mask = torch.ones(1, RES, dtype=torch.bfloat16)
    mask[:, -17:] = 0
    return [torch.randn(1, RES, RES, CZ, dtype=torch.bfloat16), mask]


def get_init_inputs():
    return [CZ, CH]
