import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, hidden, rank, alpha):
        super().__init__()
        self.base = nn.Linear(hidden, 3 * hidden, bias=False, dtype=torch.float16)
        self.a = nn.Parameter((torch.randn(2 * rank, hidden) / hidden**0.5).half())
        self.bq = nn.Parameter((torch.randn(hidden, rank) / rank**0.5).half())
        self.bv = nn.Parameter((torch.randn(hidden, rank) / rank**0.5).half())
        self.scale = alpha / rank

    def forward(self, x):
        q, k, v = self.base(x).chunk(3, dim=-1)
        aq, av = F.linear(x, self.a).chunk(2, dim=-1)
        q = q + self.scale * (aq @ self.bq.t())
        v = v + self.scale * (av @ self.bv.t())
        return torch.stack((q, k, v), dim=0)


def get_inputs():
    return [torch.randn(1000, 4096, dtype=torch.float16)]


def get_init_inputs():
    return [4096, 16, 16.0]
