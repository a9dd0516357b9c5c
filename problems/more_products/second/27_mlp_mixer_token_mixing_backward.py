import math
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, tokens, dim, hidden):
        super().__init__()
        self.norm = nn.LayerNorm(dim, eps=1e-6)
        self.fc1 = nn.Linear(tokens, hidden)
        self.fc2 = nn.Linear(hidden, tokens)

    def forward(self, grad, x):
        mu = x.mean(-1, keepdim=True)
        rstd = torch.rsqrt(x.var(-1, unbiased=False, keepdim=True) + self.norm.eps)
        xhat = (x - mu) * rstd
        h = self.fc1((xhat * self.norm.weight + self.norm.bias).transpose(1, 2))
        cdf = 0.5 * (1.0 + torch.erf(h / math.sqrt(2.0)))
        pdf = torch.exp(-0.5 * h * h) / math.sqrt(2.0 * math.pi)
        dh = grad.transpose(1, 2) @ self.fc2.weight * (cdf + h * pdf)
        g = (dh @ self.fc1.weight).transpose(1, 2) * self.norm.weight
        dx = rstd * (g - g.mean(-1, keepdim=True) - xhat * (g * xhat).mean(-1, keepdim=True))
        return grad + dx


def get_inputs():
    return [torch.randn(64, 196, 768), torch.randn(64, 196, 768)]


def get_init_inputs():
    return [196, 768, 384]
