import torch
import torch.nn as nn


class Model(nn.Module):
    """Outer product mean of the Evoformer (AlphaFold 2), float32: layer norm of the alignment, two masked projections
    to narrow channels, the outer product of all pairs of columns summed over the sequences, an output projection,
    division by how many sequences cover both columns, added to the pair representation."""

    def __init__(self, msa_dim, hidden, pair_dim):
        super().__init__()
        self.norm = nn.LayerNorm(msa_dim)
        self.a = nn.Linear(msa_dim, hidden)
        self.b = nn.Linear(msa_dim, hidden)
        self.out = nn.Linear(hidden * hidden, pair_dim)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=module.in_features**-0.5)

    def forward(self, msa, mask, pair):
        m = self.norm(msa)
        a = self.a(m) * mask[..., None]
        b = self.b(m) * mask[..., None]
        outer = torch.einsum("sic,sjd->ijcd", a, b).flatten(2)
        count = torch.einsum("si,sj->ij", mask, mask)
        return pair + self.out(outer) / (count[..., None] + 1e-3)


SEQUENCES, COLUMNS, MSA_DIM, HIDDEN, PAIR_DIM = 118, 117, 256, 32, 128


def get_inputs():
    return [
        torch.randn(COLUMNS, MSA_DIM) + torch.randn(SEQUENCES, COLUMNS, MSA_DIM),
        (torch.rand(SEQUENCES, COLUMNS) < 0.85).float(),
        torch.randn(COLUMNS, COLUMNS, PAIR_DIM),
    ]


def get_init_inputs():
    return [MSA_DIM, HIDDEN, PAIR_DIM]
