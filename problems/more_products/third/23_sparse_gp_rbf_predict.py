import torch
import torch.nn as nn

TEST, INDUCING, DIM, OUT = 4096, 1333, 90, 3


class Model(nn.Module):
    """Sparse Gaussian-process prediction: ARD squared-exponential kernel from pairwise distances computed by a
    product, predictive mean (K alpha) and variance (row norms of K times a triangular factor)."""

    def __init__(self, inducing: int, dim: int, out: int):
        super().__init__()
        self.z = nn.Parameter(torch.randn(inducing, dim))
        self.log_ls = nn.Parameter(0.5 * torch.log(torch.tensor(float(dim))) + 0.1 * torch.randn(dim))
        self.log_var = nn.Parameter(torch.tensor(0.3))
        self.log_noise = nn.Parameter(torch.tensor(-2.0))
        self.alpha = nn.Parameter(torch.randn(inducing, out) * inducing ** -0.5)
        self.chol_inv = nn.Parameter(torch.tril(torch.randn(inducing, inducing)) * (2.0 / inducing))

    def forward(self, x):
        scale = torch.exp(-self.log_ls)
        a, b = x * scale, self.z * scale
        d2 = a.square().sum(-1, keepdim=True) + b.square().sum(-1) - 2.0 * (a @ b.t())
        k = torch.exp(self.log_var - 0.5 * d2.clamp(min=0))
        mean = k @ self.alpha
        v = k @ torch.tril(self.chol_inv).t()
        var = torch.exp(self.log_var) - v.square().sum(-1) + torch.exp(self.log_noise)
        return mean, torch.sqrt(var.clamp(min=1e-6))


def get_inputs():
    return [torch.randn(TEST, DIM)]


def get_init_inputs():
    return [INDUCING, DIM, OUT]
