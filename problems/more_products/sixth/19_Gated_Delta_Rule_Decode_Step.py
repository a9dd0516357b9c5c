import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """One decoding step of a gated delta-rule layer: projections, decayed state, rank-one correction, gated norm, output."""

    def __init__(self, dim, heads, dk, dv):
        super().__init__()
        bf = torch.bfloat16
        self.h, self.dk, self.dv = heads, dk, dv
        self.qkvz = nn.Linear(dim, heads * (2 * dk + 2 * dv), bias=False).to(bf)
        self.ba = nn.Linear(dim, 2 * heads, bias=False).to(bf)
        self.A_log = nn.Parameter(torch.log(0.5 + 2.0 * torch.rand(heads)))
        self.dt_bias = nn.Parameter(torch.randn(heads) - 2.0)
        self.norm = nn.Parameter((1 + 0.1 * torch.randn(dv)).to(bf))
        self.out = nn.Linear(heads * dv, dim, bias=False).to(bf)

    def forward(self, x, S):
        B = x.shape[0]
        y = self.qkvz(x).view(B, self.h, -1).float()
        q, k, v, z = y.split([self.dk, self.dk, self.dv, self.dv], dim=-1)
        b, a = self.ba(x).float().chunk(2, dim=-1)
        beta = torch.sigmoid(b)
        g = torch.exp(-torch.exp(self.A_log) * F.softplus(a + self.dt_bias))
        q = q * torch.rsqrt(q.pow(2).sum(-1, keepdim=True) + 1e-6)
        k = k * torch.rsqrt(k.pow(2).sum(-1, keepdim=True) + 1e-6)
        S = S * g[..., None, None]
        pred = torch.einsum("bhkv,bhk->bhv", S, k)
        delta = (v - pred) * beta.unsqueeze(-1)
        S = S + k.unsqueeze(-1) * delta.unsqueeze(-2)
        o = torch.einsum("bhkv,bhk->bhv", S, q)
        o = o * torch.rsqrt(o.pow(2).mean(-1, keepdim=True) + 1e-5) * self.norm.float()
        o = (o * F.silu(z)).to(x.dtype).reshape(B, -1)
        return self.out(o), S


def get_inputs():
    return [torch.randn(8, 2048).to(torch.bfloat16), torch.randn(8, 16, 128, 128)]


def get_init_inputs():
    return [2048, 16, 128, 128]
