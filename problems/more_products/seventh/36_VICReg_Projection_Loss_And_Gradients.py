import torch
import torch.nn as nn


class Model(nn.Module):
    """VICReg on two projected views: invariance, variance hinge and covariance terms, loss-scaled gradients of both inputs and of the shared weight."""

    def __init__(self, inv, var, cov, eps, scale):
        super().__init__()
        self.scale = scale
        self.inv, self.var, self.cov, self.eps = inv, var, cov, eps

    def terms(self, z, off):
        n, d = z.shape
        c = z - z.mean(0)
        std = torch.sqrt(c.square().sum(0) / (n - 1) + self.eps)
        gap = torch.relu(1.0 - std)
        co = (c.t() @ c) / (n - 1) * off
        loss = self.var * 0.5 * gap.mean() + self.cov * co.square().sum() / d
        active = (gap > 0).float()
        dv = -(0.5 * self.var / (d * (n - 1))) * c * (active / std)
        dc = (4.0 * self.cov / (d * (n - 1))) * (c @ co)
        return loss, dv + dc

    def forward(self, ha, hb, w, bias, off):
        za, zb = ha @ w.t() + bias, hb @ w.t() + bias
        la, ga = self.terms(za, off)
        lb, gb = self.terms(zb, off)
        diff = za - zb
        loss = self.inv * diff.square().mean() + la + lb
        step = (2.0 * self.inv / diff.numel()) * diff
        ga, gb = (ga + step) * self.scale, (gb - step) * self.scale
        dw = ga.t() @ ha + gb.t() @ hb
        return loss, dw, ga @ w, gb @ w


N, IN, OUT = 1000, 2048, 1536


def get_inputs():
    base = torch.randn(N, IN)
    row = 0.3 + 0.4 * torch.rand(OUT, 1)
    return [
        base + 0.3 * torch.randn(N, IN),
        base + 0.3 * torch.randn(N, IN),
        row * torch.randn(OUT, IN) / IN ** 0.5,
        0.1 * torch.randn(OUT),
        1.0 - torch.eye(OUT),
    ]


def get_init_inputs():
    return [25.0, 25.0, 1.0, 1e-4, 8192.0]
