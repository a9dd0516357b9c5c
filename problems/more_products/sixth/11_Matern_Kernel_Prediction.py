import torch
import torch.nn as nn


class Model(nn.Module):
    """Gaussian-process mean with an ARD Matern-3/2 kernel: distances, kernel, product with the dual coefficients."""

    def __init__(self, n_train, dim, n_out):
        super().__init__()
        self.train_x = nn.Parameter(torch.randn(n_train, dim))
        self.log_ls = nn.Parameter(0.2 * torch.randn(dim) + 0.5 * torch.log(torch.tensor(float(dim))))
        self.alpha = nn.Parameter(3.0 * torch.randn(n_train, n_out) / n_train ** 0.5)
        self.mean = nn.Parameter(torch.randn(n_out))
        self.var = nn.Parameter(torch.tensor(1.7))

    def forward(self, xq):
        inv = torch.exp(-self.log_ls)
        a = xq * inv
        b = self.train_x * inv
        d2 = (a * a).sum(-1, keepdim=True) + (b * b).sum(-1) - 2.0 * (a @ b.t())
        r = torch.sqrt(torch.clamp(d2, min=1e-8)) * 1.7320508
        k = self.var * (1.0 + r) * torch.exp(-r)
        return k @ self.alpha + self.mean


def get_inputs():
    return [torch.randn(3001, 90)]


def get_init_inputs():
    return [2500, 90, 21]
