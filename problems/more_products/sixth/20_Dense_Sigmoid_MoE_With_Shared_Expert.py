import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Every expert runs on every token; sigmoid router with correction bias, normalised weights, plus a shared expert."""

    def __init__(self, dim, inter, experts):
        super().__init__()
        bf = torch.bfloat16
        self.router = nn.Parameter(torch.randn(experts, dim) / dim ** 0.5)
        self.corr = nn.Parameter(0.2 * torch.randn(experts))
        self.w_gate = nn.Parameter((torch.randn(experts, dim, inter) / dim ** 0.5).to(bf))
        self.w_up = nn.Parameter((torch.randn(experts, dim, inter) / dim ** 0.5).to(bf))
        self.w_down = nn.Parameter((torch.randn(experts, inter, dim) / inter ** 0.5).to(bf))
        self.s_gu = nn.Linear(dim, 2 * inter, bias=False).to(bf)
        self.s_down = nn.Linear(inter, dim, bias=False).to(bf)

    def forward(self, x):
        s = torch.sigmoid(F.linear(x.float(), self.router) + self.corr)
        w = 2.5 * s / s.sum(-1, keepdim=True)
        g = torch.einsum("td,edi->eti", x, self.w_gate)
        u = torch.einsum("td,edi->eti", x, self.w_up)
        h = F.silu(g) * u * w.t().unsqueeze(-1).to(x.dtype)
        routed = torch.einsum("eti,eid->td", h, self.w_down)
        a, b = self.s_gu(x).chunk(2, dim=-1)
        return routed + self.s_down(F.silu(a) * b)


def get_inputs():
    return [torch.randn(256, 1024).to(torch.bfloat16)]


def get_init_inputs():
    return [1024, 512, 16]
