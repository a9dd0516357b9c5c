import torch
import torch.nn as nn


class Model(nn.Module):
    """Neural tensor network for knowledge-base completion, score = u . tanh(e1' W_k e2 + V [e1; e2] + b) with 32 slices
    over 100-dimensional entity vectors: scores, and for a given gradient of the scores those of both entities, of the
    tensor, of V, b and u."""

    def __init__(self, dim, slices):
        super().__init__()
        self.w = nn.Parameter(torch.randn(slices, dim, dim) / dim)
        self.v = nn.Parameter(torch.randn(slices, 2 * dim) / (2 * dim) ** 0.5)
        self.b = nn.Parameter(0.1 * torch.randn(slices))
        self.u = nn.Parameter(torch.randn(slices) / slices ** 0.5)

    def forward(self, e1, e2, dscore):
        t = torch.einsum("bi,kij->bkj", e1, self.w)
        pair = torch.cat((e1, e2), dim=1)
        f = torch.tanh(torch.einsum("bkj,bj->bk", t, e2) + pair @ self.v.t() + self.b)
        score = f @ self.u

        du = dscore @ f
        dz = dscore[:, None] * self.u * (1 - f * f)
        dw = torch.einsum("bk,bi,bj->kij", dz, e1, e2)
        dv = dz.t() @ pair
        dpair = dz @ self.v
        d = e1.shape[1]
        de1 = torch.einsum("bk,kij,bj->bi", dz, self.w, e2) + dpair[:, :d]
        de2 = torch.einsum("bk,bkj->bj", dz, t) + dpair[:, d:]
        return score, de1, de2, dw, dv, dz.sum(0), du


BATCH, DIM, SLICES = 4000, 100, 32


def get_inputs():
    return [torch.randn(BATCH, DIM), torch.randn(BATCH, DIM), 0.3 * torch.randn(BATCH)]


def get_init_inputs():
    return [DIM, SLICES]
