import torch
import torch.nn as nn
import torch.nn.functional as F


def cores(inputs, outputs, ranks):
    made = []
    for i, (m, n) in enumerate(zip(inputs, outputs)):
        made.append(nn.Parameter(torch.randn(ranks[i], m, n, ranks[i + 1]) / (ranks[i] * m) ** 0.5))
    return nn.ParameterList(made)


class Model(nn.Module):
    """Feed-forward block whose two weight matrices (1024 x 4096 and back) are tensor trains of four cores with rank 8,
    as in compressed transformers: the input is folded to four indices, the cores are contracted one after another,
    then bias, GELU, the second train and the residual."""

    def __init__(self, small, large, rank):
        super().__init__()
        ranks = [1] + [rank] * (len(small) - 1) + [1]
        self.small, self.large = small, large
        self.up = cores(small, large, ranks)
        self.down = cores(large, small, ranks)
        n_large, n_small = 1, 1
        for a, b in zip(small, large):
            n_small, n_large = n_small * a, n_large * b
        self.b_up = nn.Parameter(0.1 * torch.randn(n_large))
        self.b_down = nn.Parameter(0.1 * torch.randn(n_small))

    def train_product(self, x, dims, made):
        rows = x.shape[0]
        t = x.reshape(rows, 1, 1, -1)
        for m, core in zip(dims, made):
            # t: (rows, done outputs, rank, remaining inputs)
            t = t.unflatten(-1, (m, -1))
            t = torch.einsum("bormi,rmns->bonsi", t, core).flatten(1, 2)
        return t.reshape(rows, -1)

    def forward(self, x):
        h = F.gelu(self.train_product(x, self.small, self.up) + self.b_up)
        return x + self.train_product(h, self.large, self.down) + self.b_down


ROWS = 512


def get_inputs():
    return [torch.randn(ROWS, 1024)]


def get_init_inputs():
    return [[4, 8, 8, 4], [8, 8, 8, 8], 8]
