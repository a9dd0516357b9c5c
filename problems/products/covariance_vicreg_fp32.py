"""VICReg's variance and covariance terms: expander linear, mean removed, covariance matrix, off-diagonal penalty."""
import torch
import torch.nn as nn
import torch.nn.functional as F

N, K, D = 2048, 512, 1024

class Model(nn.Module):
    def __init__(self, k, d):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(k, d) * k ** -0.5)
        self.bias = nn.Parameter(0.1 * torch.randn(d))

    def forward(self, x):
        z = torch.addmm(self.bias, x, self.weight)
        z = z - z.mean(dim=0)
        cov = (z.t() @ z) / (z.shape[0] - 1)
        diag = torch.diagonal(cov)
        std_loss = F.relu(1.0 - torch.sqrt(diag + 1e-4)).mean()
        cov_loss = (cov.square().sum() - diag.square().sum()) / z.shape[1]
        return cov, std_loss, cov_loss

def get_inputs():
    return [torch.randn(N, K)]

def get_init_inputs():
    return [K, D]
