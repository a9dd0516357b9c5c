import math

import torch
import torch.nn as nn


class Model(nn.Module):
    """Backward pass of the MLP branch of a vision transformer with layer scale, in float32 and written out: y = x +
    scale * (W2 gelu(W1 norm(x) + b1) + b2). Returns the gradients of the input and of all seven parameters (two
    weights, two biases, norm weight and bias, layer scale)."""

    def __init__(self, dim, hidden):
        super().__init__()
        self.gamma = nn.Parameter(1 + 0.1 * torch.randn(dim))
        self.beta = nn.Parameter(0.1 * torch.randn(dim))
        self.w1 = nn.Parameter(torch.randn(hidden, dim) / dim**0.5)
        self.b1 = nn.Parameter(0.1 * torch.randn(hidden))
        self.w2 = nn.Parameter(torch.randn(dim, hidden) / hidden**0.5)
        self.b2 = nn.Parameter(0.1 * torch.randn(dim))
        self.scale = nn.Parameter(0.5 + 0.1 * torch.randn(dim))

    def forward(self, x, dy):
        x, d = x.flatten(0, 1), dy.flatten(0, 1)
        centred = x - x.mean(-1, keepdim=True)
        rstd = torch.rsqrt(centred.pow(2).mean(-1, keepdim=True) + 1e-6)
        xhat = centred * rstd
        n = xhat * self.gamma + self.beta
        a = torch.addmm(self.b1, n, self.w1.t())
        cdf = 0.5 * (1 + torch.erf(a / math.sqrt(2)))
        h = a * cdf
        branch = torch.addmm(self.b2, h, self.w2.t())

        d_scale = (d * branch).sum(0)
        db = d * self.scale
        d_w2, d_b2 = db.t() @ h, db.sum(0)
        da = (db @ self.w2) * (cdf + a * torch.exp(-0.5 * a * a) / math.sqrt(2 * math.pi))
        d_w1, d_b1 = da.t() @ n, da.sum(0)
        dn = da @ self.w1
        d_gamma, d_beta = (dn * xhat).sum(0), dn.sum(0)
        dxhat = dn * self.gamma
        inner = dxhat - dxhat.mean(-1, keepdim=True) - xhat * (dxhat * xhat).mean(-1, keepdim=True)
        dx = (d + inner * rstd).reshape(dy.shape)
        return dx, d_gamma, d_beta, d_w1, d_b1, d_w2, d_b2, d_scale


BATCH, TOKENS, DIM, HIDDEN = 8, 197, 192, 768


def get_inputs():
    return [torch.randn(BATCH, TOKENS, DIM), torch.randn(BATCH, TOKENS, DIM)]


def get_init_inputs():
    return [DIM, HIDDEN]
