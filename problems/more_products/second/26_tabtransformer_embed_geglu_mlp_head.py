import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, n_cat, n_cont, card, dim):
        super().__init__()
        self.embed = nn.Embedding(n_cat * card, dim - 8)
        self.column = nn.Parameter(torch.randn(n_cat, 8) * 0.02)
        self.register_buffer("offset", torch.arange(n_cat) * card)
        self.norm, self.norm_cont = nn.LayerNorm(dim), nn.LayerNorm(n_cont)
        self.ff0, self.ff1 = nn.Linear(dim, 8 * dim), nn.Linear(4 * dim, dim)
        width = n_cat * dim + n_cont
        self.mlp0, self.mlp1, self.mlp2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, 2 * width), nn.Linear(2 * width, 1)

    def forward(self, cat_ids, cont):
        e = self.embed(cat_ids + self.offset)
        x = torch.cat([e, self.column.expand(e.shape[0], -1, -1)], dim=-1)
        a, g = self.ff0(self.norm(x)).chunk(2, dim=-1)
        x = x + self.ff1(a * F.gelu(g))
        h = torch.cat([x.flatten(1), self.norm_cont(cont)], dim=-1)
        return self.mlp2(F.selu(self.mlp1(F.selu(self.mlp0(h)))))


def get_inputs():
    return [torch.randint(0, 100, (64, 12)), torch.randn(64, 10)]


def get_init_inputs():
    return [12, 10, 100, 32]
