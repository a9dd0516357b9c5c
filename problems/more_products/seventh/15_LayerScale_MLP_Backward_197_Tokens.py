import math
import torch
import torch.nn as nn


class Model(nn.Module):
    """Backward of a DeiT-III MLP branch with LayerScale from saved activations: gradients of gamma, both layers' weights and biases, and the normed input."""

    def __init__(self):
        super().__init__()

    def forward(self, dout, xn, pre, branch, gamma, w1, w2):
        d = dout.flatten(0, 1)
        x, p, y = xn.flatten(0, 1), pre.flatten(0, 1), branch.flatten(0, 1)
        dgamma = (d.float() * y.float()).sum(0)
        dy = d * gamma
        pf = p.float()
        cdf = 0.5 * (1.0 + torch.erf(pf * math.sqrt(0.5)))
        slope = cdf + pf * torch.exp(-0.5 * pf * pf) / math.sqrt(2.0 * math.pi)
        act = (pf * cdf).to(d.dtype)
        dw2 = dy.t() @ act
        db2 = dy.float().sum(0)
        dp = ((dy @ w2).float() * slope).to(d.dtype)
        dw1 = dp.t() @ x
        db1 = dp.float().sum(0)
        dx = (dp @ w1).view_as(dout)
        return dx, dw1, db1, dw2, db2, dgamma


B, T, DIM, FFN = 24, 197, 384, 1536


def get_inputs():
    bf = torch.bfloat16
    return [
        (0.2 * torch.randn(B, T, DIM)).to(bf),
        torch.randn(B, T, DIM).to(bf),
        torch.randn(B, T, FFN).to(bf),
        (0.6 * torch.randn(B, T, DIM)).to(bf),
        (0.1 + 0.05 * torch.randn(DIM)).to(bf),
        (torch.randn(FFN, DIM) / DIM ** 0.5).to(bf),
        (torch.randn(DIM, FFN) / FFN ** 0.5).to(bf),
    ]


def get_init_inputs():
    return []
