import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """RWKV-6 time-mix before its recurrence: token shift, data-dependent low-rank interpolation, r/k/v/g projections and decay."""

    def __init__(self, dim, mix_rank, decay_rank):
        super().__init__()
        bf = torch.bfloat16
        self.mix_rank = mix_rank
        self.mu_x = nn.Parameter(torch.rand(dim).to(bf))
        self.mu = nn.Parameter(torch.rand(5, 1, 1, dim).to(bf))
        self.mix_a = nn.Parameter((torch.randn(dim, 5 * mix_rank) / dim ** 0.5).to(bf))
        self.mix_b = nn.Parameter((0.3 * torch.randn(5, mix_rank, dim) / mix_rank ** 0.5).to(bf))
        self.decay = nn.Parameter((-2.0 + torch.rand(dim)).to(bf))
        self.decay_a = nn.Parameter((torch.randn(dim, decay_rank) / dim ** 0.5).to(bf))
        self.decay_b = nn.Parameter((0.3 * torch.randn(decay_rank, dim) / decay_rank ** 0.5).to(bf))
        self.r = nn.Linear(dim, dim, bias=False).to(bf)
        self.k = nn.Linear(dim, dim, bias=False).to(bf)
        self.v = nn.Linear(dim, dim, bias=False).to(bf)
        self.g = nn.Linear(dim, dim, bias=False).to(bf)

    def forward(self, x):
        b, t, c = x.shape
        delta = F.pad(x, (0, 0, 1, -1)) - x
        probe = torch.tanh((x + delta * self.mu_x) @ self.mix_a)
        probe = probe.view(b * t, 5, self.mix_rank).transpose(0, 1)
        m = torch.bmm(probe, self.mix_b).view(5, b, t, c) + self.mu
        xw, xk, xv, xr, xg = (x + delta * m).unbind(0)
        w = self.decay + torch.tanh(xw @ self.decay_a) @ self.decay_b
        w = torch.exp(-torch.exp(w.float()))
        return self.r(xr), self.k(xk), self.v(xv), F.silu(self.g(xg)), w


def get_inputs():
    return [torch.randn(2, 600, 2048).to(torch.bfloat16)]


def get_init_inputs():
    return [2048, 32, 64]
