import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Serving several adapters at once: shared packed QKV weight, per-group low-rank updates of the q and v slices only."""

    def __init__(self, dim, d_q, d_kv):
        super().__init__()
        self.d_q, self.d_kv = d_q, d_kv
        self.qkv = nn.Linear(dim, d_q + 2 * d_kv).to(torch.bfloat16)

    def forward(self, x, a_q, b_q, a_v, b_v, scale):
        y = self.qkv(x)
        q, k, v = y.split([self.d_q, self.d_kv, self.d_kv], dim=-1)
        s = scale.view(-1, 1, 1)
        q = q + s * torch.bmm(torch.bmm(x, a_q), b_q)
        v = v + s * torch.bmm(torch.bmm(x, a_v), b_v)
        return torch.cat((q, k, v), dim=-1)


G, T, D, R, DQ, DKV = 7, 130, 2048, 16, 2048, 512


def get_inputs():
    bf = torch.bfloat16
    return [
        torch.randn(G, T, D).to(bf),
        (torch.randn(G, D, R) / D ** 0.5).to(bf),
        (torch.randn(G, R, DQ) / R ** 0.5).to(bf),
        (torch.randn(G, D, R) / D ** 0.5).to(bf),
        (torch.randn(G, R, DKV) / R ** 0.5).to(bf),
        (0.5 + torch.rand(G)).to(bf),
    ]


def get_init_inputs():
    return [D, DQ, DKV]
