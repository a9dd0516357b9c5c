import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Intra-chunk part of a state-space dual layer: (C B^T * decay mask) X, chunk end states, skip, gate."""

    def __init__(self, heads):
        super().__init__()
        self.A_log = nn.Parameter(torch.log(0.5 + torch.rand(heads)))
        self.dt_bias = nn.Parameter(torch.randn(heads) - 3.0)
        self.D = nn.Parameter(torch.randn(heads))

    def forward(self, x, dt, Bm, Cm, z):
        # x, z: (c, q, h, p)  dt: (c, q, h)  Bm, Cm: (c, q, n)
        Q = x.shape[1]
        dt = F.softplus(dt + self.dt_bias)
        cs = torch.cumsum(-torch.exp(self.A_log) * dt, dim=1).permute(0, 2, 1)
        seg = cs.unsqueeze(-1) - cs.unsqueeze(-2)
        keep = torch.ones(Q, Q, dtype=torch.bool, device=x.device).tril()
        L = torch.exp(seg.masked_fill(~keep, float("-inf")))
        xdt = (x * dt.unsqueeze(-1)).permute(0, 2, 1, 3)
        G = torch.bmm(Cm, Bm.transpose(1, 2)).unsqueeze(1)
        y = torch.matmul(G * L, xdt)
        decay = torch.exp(cs[..., -1:] - cs)
        states = torch.einsum("cqn,chq,chqp->chpn", Bm, decay, xdt)
        y = y.permute(0, 2, 1, 3) + self.D.unsqueeze(-1) * x
        return y * F.silu(z), states


C, Q, H, P, N = 16, 128, 24, 64, 96


def get_inputs():
    return [
        torch.randn(C, Q, H, P),
        torch.randn(C, Q, H),
        torch.randn(C, Q, N),
        torch.randn(C, Q, N) * 0.3,
        torch.randn(C, Q, H, P),
    ]


def get_init_inputs():
    return [H]
