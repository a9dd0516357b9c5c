import torch
import torch.nn as nn
import torch.nn.functional as F


def shifted_softplus(x):
    return F.softplus(x) - 0.6931471805599453


class Model(nn.Module):
    """Continuous-filter interaction block of SchNet on a padded neighbour list: distances are expanded in 50 Gaussians,
    a two-layer filter network with a cosine cutoff makes a filter per pair, neighbours' features are gathered,
    multiplied and summed, and two dense layers give the atom's residual update."""

    def __init__(self, dim, gaussians, cutoff):
        super().__init__()
        self.cutoff = cutoff
        centres = torch.linspace(0.0, cutoff, gaussians)
        self.register_buffer("centres", centres)
        self.coeff = -0.5 / (cutoff / (gaussians - 1)) ** 2
        self.filter1, self.filter2 = nn.Linear(gaussians, dim), nn.Linear(dim, dim)
        self.lin_in = nn.Linear(dim, dim, bias=False)
        self.lin_mid, self.lin_out = nn.Linear(dim, dim), nn.Linear(dim, dim)

    def forward(self, x, dist, neighbour, mask):
        rbf = torch.exp(self.coeff * (dist[..., None] - self.centres) ** 2)
        w = self.filter2(shifted_softplus(self.filter1(rbf)))
        cut = 0.5 * (torch.cos(dist * (torch.pi / self.cutoff)) + 1.0) * (dist < self.cutoff) * mask
        w = w * cut[..., None]
        m = (self.lin_in(x)[neighbour] * w).sum(dim=1)
        return x + self.lin_out(shifted_softplus(self.lin_mid(m)))


ATOMS, NEIGHBOURS, DIM = 3000, 28, 128


def get_inputs():
    return [
        torch.randn(ATOMS, DIM),
        0.8 + 5.0 * torch.rand(ATOMS, NEIGHBOURS),
        torch.randint(0, ATOMS, (ATOMS, NEIGHBOURS)),
        (torch.rand(ATOMS, NEIGHBOURS) < 0.85).float(),
    ]


def get_init_inputs():
    return [DIM, 50, 5.0]
