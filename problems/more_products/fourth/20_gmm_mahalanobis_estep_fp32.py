import math
import torch
import torch.nn as nn

ROWS, COMPS, DIM = 6000, 96, 45


class Model(nn.Module):
    """E-step of a full-covariance Gaussian mixture: Mahalanobis distances through the Cholesky factors of the
    precisions, log-likelihood, responsibilities, and the weighted sums of the M-step means."""

    def __init__(self, comps, dim):
        super().__init__()
        tri = torch.tril(torch.randn(comps, dim, dim), diagonal=-1) / math.sqrt(dim)
        self.chol = nn.Parameter(tri + torch.diag_embed(0.7 + 0.6 * torch.rand(comps, dim)))
        self.mu = nn.Parameter(torch.randn(comps, dim))
        self.logits = nn.Parameter(0.3 * torch.randn(comps))
        self.const = -0.5 * dim * math.log(2.0 * math.pi)

    def forward(self, x):
        proj = torch.einsum("nd,kde->kne", x, self.chol)
        proj = proj - torch.bmm(self.mu.unsqueeze(1), self.chol)
        maha = proj.square().sum(-1).t()
        logdet = self.chol.diagonal(dim1=1, dim2=2).log().sum(-1)
        joint = self.const + logdet - 0.5 * maha + torch.log_softmax(self.logits, 0)
        ll = torch.logsumexp(joint, dim=1, keepdim=True)
        resp = torch.exp(joint - ll)
        return ll.squeeze(1), resp, resp.t() @ x


def get_inputs():
    return [1.5 * torch.randn(ROWS, DIM)]


def get_init_inputs():
    return [COMPS, DIM]
