import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, h, w, b, labels, weight):
        logits = F.linear(h, w, b).float()
        p = torch.softmax(logits, dim=-1)
        d = p.scatter_add(1, labels[:, None], torch.full_like(p[:, :1], -1.0))
        d = d * weight[:, None]
        grad_b = d.sum(dim=0)
        d = d.to(h.dtype)
        grad_h = d @ w
        grad_w = d.t() @ h
        return grad_h, grad_w, grad_b


def get_inputs():
    t, d, v = 2048, 1024, 30522
    return [
        torch.randn(t, d, dtype=torch.bfloat16),
        (torch.randn(v, d) / d**0.5).bfloat16(),
        (0.1 * torch.randn(v)).bfloat16(),
        torch.randint(0, v, (t,)),
        0.5 + torch.rand(t),
    ]


def get_init_inputs():
    return []
