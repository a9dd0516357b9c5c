import torch
import torch.nn as nn
import torch.nn.functional as F

SAMPLES, D1, D2, HID, OUT = 2000, 273, 112, 1024, 112


def inv_sqrt(m, iters):
    """Coupled Newton-Schulz inverse square root of a symmetric positive definite matrix."""
    eye = torch.eye(m.shape[0], dtype=m.dtype, device=m.device)
    t = torch.diagonal(m).sum()
    y, z = m / t, eye
    for _ in range(iters):
        w = 1.5 * eye - 0.5 * (z @ y)
        y, z = y @ w, w @ z
    return z * torch.rsqrt(t)


class Model(nn.Module):
    """Deep CCA objective on the XRMB dimensions: two sigmoid networks, centred covariances with ridge,
    whitening of both views, total squared correlation, and the whitened first view."""

    def __init__(self, d1: int, d2: int, hid: int, out: int, ridge: float, iters: int):
        super().__init__()
        self.f1, self.f2 = nn.Linear(d1, hid), nn.Linear(hid, out)
        self.g1, self.g2 = nn.Linear(d2, hid), nn.Linear(hid, out)
        for lin in (self.f1, self.f2, self.g1, self.g2):
            nn.init.normal_(lin.weight, std=2.0 * lin.in_features ** -0.5)
        self.ridge, self.iters = ridge, iters

    def forward(self, v1, v2):
        a = self.f2(torch.sigmoid(self.f1(v1)))
        b = self.g2(torch.sigmoid(self.g1(v2)))
        n = a.shape[0]
        a = a - a.mean(0, keepdim=True)
        b = b - b.mean(0, keepdim=True)
        ra = self.ridge * torch.eye(a.shape[1], device=a.device)
        rb = self.ridge * torch.eye(b.shape[1], device=b.device)
        saa = a.t() @ a / (n - 1) + ra
        sbb = b.t() @ b / (n - 1) + rb
        sab = a.t() @ b / (n - 1)
        wa, wb = inv_sqrt(saa, self.iters), inv_sqrt(sbb, self.iters)
        corr = wa @ sab @ wb
        return -corr.square().sum(), a @ wa


def get_inputs():
    shared = torch.randn(SAMPLES, 40)
    v1 = shared @ torch.randn(40, D1) * 40 ** -0.5 + 0.5 * torch.randn(SAMPLES, D1)
    v2 = shared @ torch.randn(40, D2) * 40 ** -0.5 + 0.5 * torch.randn(SAMPLES, D2)
    return [v1, v2]


def get_init_inputs():
    return [D1, D2, HID, OUT, 0.1, 16]
