import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, hidden, dim, labels):
        super().__init__()
        self.head = nn.Linear(hidden, dim)
        self.dep = nn.Linear(hidden, dim)
        self.w = nn.Parameter(torch.randn(labels, dim + 1, dim + 1) / dim)

    def forward(self, x):
        h = F.leaky_relu(self.head(x), 0.1)
        d = F.leaky_relu(self.dep(x), 0.1)
        one = torch.ones_like(x[..., :1])
        h = torch.cat((h, one), dim=-1)
        d = torch.cat((d, one), dim=-1)
        scores = torch.einsum("bxi,oij,byj->boxy", d, self.w, h)
        return scores.permute(0, 2, 3, 1).contiguous()


def get_inputs():
    return [torch.randn(32, 77, 1024)]


def get_init_inputs():
    return [1024, 400, 12]
