import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, n_dense, n_sparse, rows, dim):
        super().__init__()
        self.emb = nn.Embedding(n_sparse * rows, dim)
        self.bot = nn.Sequential(nn.Linear(n_dense, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, dim), nn.ReLU())
        n = n_sparse + 1
        self.top0 = nn.Linear(dim + n * (n - 1) // 2, 512)
        self.top1 = nn.Linear(512, 1)
        self.register_buffer("offsets", torch.arange(n_sparse) * rows)
        self.register_buffer("tri", torch.tril_indices(n, n, -1))

    def forward(self, dense, ids):
        x = self.bot(dense)
        e = self.emb(ids + self.offsets)
        t = torch.cat([x.unsqueeze(1), e], dim=1)
        z = torch.bmm(t, t.transpose(1, 2))
        r = torch.cat([x, z[:, self.tri[0], self.tri[1]]], dim=1)
        return torch.sigmoid(self.top1(torch.relu(self.top0(r)))).squeeze(-1)


def get_inputs():
    return [torch.rand(2048, 13), torch.randint(0, 1000, (2048, 26))]


def get_init_inputs():
    return [13, 26, 1000, 64]
