import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH, DENSE, TABLES, ROWS, DIM = 2048, 13, 26, 20000, 128


class Model(nn.Module):
    """DLRM (Criteo): bottom MLP, 26 embedding tables stored as one, pairwise dot interactions (lower triangle
    of a 27x27 Gram matrix per sample), top MLP, click probability loss."""

    def __init__(self, dense: int, tables: int, rows: int, dim: int):
        super().__init__()
        self.bot = nn.Sequential(
            nn.Linear(dense, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, dim), nn.ReLU()
        )
        self.table = nn.Parameter(torch.randn(tables * rows, dim) * dim ** -0.5)
        self.register_buffer("offsets", torch.arange(tables) * rows)
        li, lj = torch.tril_indices(tables + 1, tables + 1, offset=-1)
        self.register_buffer("pairs", li * (tables + 1) + lj)
        pair_count = (tables + 1) * tables // 2
        self.t1 = nn.Linear(dim + pair_count, 1024)
        self.t2 = nn.Linear(1024, 512)
        self.t3 = nn.Linear(512, 1)
        for mod in self.modules():
            if isinstance(mod, nn.Linear):
                nn.init.kaiming_normal_(mod.weight, nonlinearity="relu")

    def forward(self, dense, sparse, label):
        d = self.bot(torch.log1p(dense))
        e = F.embedding(sparse + self.offsets, self.table)
        f = torch.cat((d.unsqueeze(1), e), dim=1)
        gram = torch.bmm(f, f.transpose(1, 2))
        inter = gram.flatten(1).index_select(1, self.pairs)
        x = torch.cat((d, inter), dim=1)
        logit = self.t3(F.relu(self.t2(F.relu(self.t1(x))))).squeeze(-1)
        return logit, F.binary_cross_entropy_with_logits(logit, label)


def get_inputs():
    return [
        torch.rand(BATCH, DENSE) * 10,
        torch.randint(0, ROWS, (BATCH, TABLES)),
        (torch.rand(BATCH) < 0.25).float(),
    ]


def get_init_inputs():
    return [DENSE, TABLES, ROWS, DIM]
