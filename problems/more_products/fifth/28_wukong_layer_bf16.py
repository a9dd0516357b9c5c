import math
import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH, FIELDS, DIM, RANK, HIDDEN, N_FM, N_LIN = 4096, 48, 128, 24, 2048, 32, 16


class Model(nn.Module):
    """Wukong recommender layer: low-rank factorisation machine X (X^T Y) through an MLP, linear compression, residual layer norm."""

    def __init__(self, fields, dim, rank, hidden, n_fm, n_lin):
        super().__init__()
        self.dim = dim
        self.y = nn.Parameter(torch.randn(fields, rank) / math.sqrt(fields))
        self.fm_norm = nn.LayerNorm(fields * rank)
        self.fc1 = nn.Linear(fields * rank, hidden)
        self.fc2 = nn.Linear(hidden, n_fm * dim)
        self.compress = nn.Parameter(torch.randn(n_lin, fields) / math.sqrt(fields))
        self.norm = nn.LayerNorm(dim)
        self.to(torch.bfloat16)

    def forward(self, x):
        b = x.shape[0]
        xty = torch.einsum("bnd,nk->bdk", x, self.y)
        fm = torch.bmm(x, xty).view(b, -1)
        fm = self.fc2(F.relu(self.fc1(self.fm_norm(fm)))).view(b, -1, self.dim)
        lin = torch.einsum("ln,bnd->bld", self.compress, x)
        return self.norm(torch.cat([fm, lin], dim=1) + x)


def get_inputs():
    return [torch.randn(BATCH, FIELDS, DIM, dtype=torch.bfloat16)]


def get_init_inputs():
    return [FIELDS, DIM, RANK, HIDDEN, N_FM, N_LIN]
