import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Dependency-parser label scores: two small projections, appended ones, a bilinear form per label."""

    def __init__(self, dim, d, labels):
        super().__init__()
        self.head = nn.Linear(dim, d)
        self.dep = nn.Linear(dim, d)
        self.U = nn.Parameter(torch.randn(labels, d + 1, d + 1) / d)

    def forward(self, x):
        h = F.leaky_relu(self.head(x), 0.1)
        m = F.leaky_relu(self.dep(x), 0.1)
        one = torch.ones_like(h[..., :1])
        h = torch.cat((h, one), dim=-1)
        m = torch.cat((m, one), dim=-1)
        t = torch.einsum("bxi,oij->boxj", m, self.U)
        s = torch.einsum("boxj,byj->boxy", t, h)
        return 4.0 * s.permute(0, 2, 3, 1)


def get_inputs():
    return [torch.randn(12, 77, 800)]


def get_init_inputs():
    return [800, 301, 41]
