import torch
import torch.nn as nn


class Model(nn.Module):
    """Outgoing triangle multiplication over a pair representation with gates and mask."""

    def __init__(self, c):
        super().__init__()
        self.ln_in = nn.LayerNorm(c)
        self.ln_out = nn.LayerNorm(c)
        self.ab_p = nn.Linear(c, 2 * c)
        self.ab_g = nn.Linear(c, 2 * c)
        self.g = nn.Linear(c, c)
        self.z = nn.Linear(c, c)

    def forward(self, pair, mask):
        x = self.ln_in(pair)
        ab = mask.unsqueeze(-1) * torch.sigmoid(self.ab_g(x)) * self.ab_p(x)
        a, b = ab.chunk(2, dim=-1)
        t = torch.matmul(a.permute(2, 0, 1), b.permute(2, 1, 0)).permute(1, 2, 0)
        return pair + torch.sigmoid(self.g(x)) * self.z(self.ln_out(t))


def get_inputs():
    return [torch.randn(203, 203, 128), (torch.rand(203, 203) > 0.1).float()]


def get_init_inputs():
    return [128]
