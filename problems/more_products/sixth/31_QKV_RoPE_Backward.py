import torch
import torch.nn as nn


class Model(nn.Module):
    """Backward through rotary embedding and packed QKV projection from per-head gradients."""

    def __init__(self):
        super().__init__()

    def _unrotate(self, d, cos, sin):
        a, b = d.float().chunk(2, dim=-1)
        return torch.cat((a * cos + b * sin, b * cos - a * sin), dim=-1).to(d.dtype)

    def forward(self, dq, dk, dv, cos, sin, x, w):
        B, H, T, D = dq.shape
        dq = self._unrotate(dq, cos, sin).transpose(1, 2).reshape(B * T, -1)
        dk = self._unrotate(dk, cos, sin).transpose(1, 2).reshape(B * T, -1)
        dv = dv.transpose(1, 2).reshape(B * T, -1)
        d = torch.cat((dq, dk, dv), dim=1)
        dx = (d @ w).view(B, T, -1)
        dw = d.t() @ x.reshape(B * T, -1)
        db = d.float().sum(0)
        return dx, dw, db


B, T, H, HK, D, C = 2, 900, 14, 2, 64, 896


def get_inputs():
    bf = torch.bfloat16
    ang = torch.outer(torch.arange(T).float(), 10000.0 ** (-torch.arange(0, D, 2).float() / D))
    return [
        (0.3 * torch.randn(B, H, T, D)).to(bf),
        (0.3 * torch.randn(B, HK, T, D)).to(bf),
        (0.3 * torch.randn(B, HK, T, D)).to(bf),
        ang.cos(),
        ang.sin(),
        torch.randn(B, T, C).to(bf),
        (torch.randn((H + 2 * HK) * D, C) / C ** 0.5).to(bf),
    ]


def get_init_inputs():
    return []
