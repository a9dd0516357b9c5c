import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, grad_out, x, w, b):
        pre = torch.addmm(b, x, w.t()).float()
        c = 0.7978845608028654
        t = torch.tanh(c * (pre + 0.044715 * pre * pre * pre))
        dt = (1 - t * t) * c * (1 + 3 * 0.044715 * pre * pre)
        d_pre = grad_out.float() * (0.5 * (1 + t) + 0.5 * pre * dt)
        grad_b = d_pre.sum(dim=0).to(b.dtype)
        d_pre = d_pre.to(x.dtype)
        return d_pre @ w, d_pre.t() @ x, grad_b


def get_inputs():
    m, k, n = 4096, 2048, 8192
    return [
        torch.randn(m, n, dtype=torch.bfloat16),
        torch.randn(m, k, dtype=torch.bfloat16),
        (torch.randn(n, k) / k**0.5).bfloat16(),
        (0.1 * torch.randn(n)).bfloat16(),
    ]


def get_init_inputs():
    return []
