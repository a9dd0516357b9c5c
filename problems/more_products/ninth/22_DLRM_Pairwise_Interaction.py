import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """DLRM in half: a bottom MLP over the dense features, one gathered embedding per sparse feature, the products of
    all pairs of vectors as one small batched product per sample, its strict lower triangle joined with the dense
    vector, a top MLP, and the click probability."""

    def __init__(self, dense, tables, rows, dim):
        super().__init__()
        self.table = nn.Parameter((torch.randn(tables * rows, dim) / dim**0.25).half())
        self.register_buffer("offset", torch.arange(tables) * rows)
        self.register_buffer("pairs", torch.tril_indices(tables + 1, tables + 1, -1))
        joined = dim + tables * (tables + 1) // 2
        self.bottom = nn.ModuleList(nn.Linear(i, o).half() for i, o in ((dense, 512), (512, 256), (256, dim)))
        self.top = nn.ModuleList(nn.Linear(i, o).half() for i, o in ((joined, 512), (512, 256), (256, 1)))
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=1.4 * module.in_features**-0.5)

    def forward(self, dense, sparse):
        x = dense
        for layer in self.bottom:
            x = F.relu(layer(x))
        vectors = torch.cat((x[:, None], self.table[sparse + self.offset]), dim=1)
        products = torch.bmm(vectors, vectors.transpose(1, 2))
        z = torch.cat((x, products[:, self.pairs[0], self.pairs[1]]), dim=1)
        z = F.relu(self.top[0](z))
        z = F.relu(self.top[1](z))
        return torch.sigmoid(self.top[2](z).float()).squeeze(-1)


BATCH, DENSE, TABLES, ROWS, DIM = 2048, 13, 26, 5000, 64


def get_inputs():
    return [torch.log1p(10 * torch.rand(BATCH, DENSE)).half(), torch.randint(0, ROWS, (BATCH, TABLES))]


def get_init_inputs():
    return [DENSE, TABLES, ROWS, DIM]
