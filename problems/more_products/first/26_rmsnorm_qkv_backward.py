import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, eps):
        super().__init__()
        self.eps = eps

    def forward(self, dq, dk, dv, grad_res, x, gain, w):
        dy = torch.cat((dq, dk, dv), dim=-1)
        xf = x.float()
        inv = torch.rsqrt(xf.square().mean(dim=-1, keepdim=True) + self.eps)
        xhat = xf * inv
        grad_w = dy.t() @ (xhat * gain.float()).to(x.dtype)
        g = (dy @ w).float()
        grad_gain = (g * xhat).sum(dim=0)
        g = g * gain.float()
        grad_x = inv * (g - xhat * (g * xhat).mean(dim=-1, keepdim=True))
        return (grad_x + grad_res.float()).to(x.dtype), grad_gain.to(gain.dtype), grad_w


def get_inputs():
    t, d, kv = 4096, 2048, 512
    bf = torch.bfloat16
    return [
        torch.randn(t, d, dtype=bf),
        torch.randn(t, kv, dtype=bf),
        torch.randn(t, kv, dtype=bf),
        torch.randn(t, d, dtype=bf),
        torch.randn(t, d, dtype=bf),
        (1 + 0.1 * torch.randn(d)).bfloat16(),
        (torch.randn(d + 2 * kv, d) / d**0.5).bfloat16(),
    ]


def get_init_inputs():
    return [1e-6]
