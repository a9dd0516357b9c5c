import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """One token through a Griffin recurrent block: two branches, 4-tap history sum, block-diagonal gates, diagonal recurrence, output."""

    def __init__(self, dim, width, heads):
        super().__init__()
        hd = width // heads
        self.heads, self.hd = heads, hd
        self.y = nn.Linear(dim, width).half()
        self.x = nn.Linear(dim, width).half()
        self.o = nn.Linear(width, dim).half()
        self.taps = nn.Parameter((0.5 * torch.randn(4, width)).half())
        self.w_i = nn.Parameter((torch.randn(heads, hd, hd) / hd ** 0.5).half())
        self.b_i = nn.Parameter((0.1 * torch.randn(heads, hd)).half())
        self.w_r = nn.Parameter((torch.randn(heads, hd, hd) / hd ** 0.5).half())
        self.b_r = nn.Parameter((0.1 * torch.randn(heads, hd)).half())
        self.lam = nn.Parameter(torch.randn(width) - 3.0)

    def forward(self, tok, hist, h):
        y = F.gelu(self.y(tok), approximate="tanh")
        x = self.x(tok)
        hist = torch.cat((hist[:, 1:], x.unsqueeze(1)), dim=1)
        x = (hist * self.taps).sum(1)
        xb = x.view(-1, self.heads, self.hd)
        i = torch.sigmoid((torch.einsum("bhi,hij->bhj", xb, self.w_i) + self.b_i).float()).flatten(1)
        r = torch.sigmoid((torch.einsum("bhi,hij->bhj", xb, self.w_r) + self.b_r).float()).flatten(1)
        log_a = -8.0 * r * F.softplus(self.lam)
        a = torch.exp(log_a)
        h = a * h + torch.sqrt(1.0 - a * a + 1e-6) * (i * x.float())
        return tok + self.o(h.to(tok.dtype) * y), hist, h


def get_inputs():
    return [torch.randn(1, 2560).half(), torch.randn(1, 4, 2560).half(), torch.randn(1, 2560)]


def get_init_inputs():
    return [2560, 2560, 10]
