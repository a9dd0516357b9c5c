import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """AdaLoRA on an encoder's intermediate layer: SVD-form update with pruned ranks, GELU, and the orthogonality penalty."""

    def __init__(self, dim, inter, rank, alpha):
        super().__init__()
        self.alpha = alpha
        bf = torch.bfloat16
        self.base = nn.Linear(dim, inter).to(bf)
        self.a = nn.Parameter((torch.randn(rank, dim) / dim ** 0.5).to(bf))
        self.e = nn.Parameter(0.5 * torch.randn(rank, 1))
        self.b = nn.Parameter((torch.randn(inter, rank) / inter ** 0.5).to(bf))
        self.register_buffer("eye", torch.eye(rank))
        keep = torch.ones(rank, 1)
        keep[rank - 3:] = 0.0
        self.register_buffer("keep", keep)

    def forward(self, x):
        lam = (self.e * self.keep).to(x.dtype)
        update = (x @ (self.a * lam).t()) @ self.b.t()
        y = F.gelu(self.base(x) + update * (self.alpha / self.keep.sum()).to(x.dtype))
        ga = self.a.float() @ self.a.float().t() - self.eye
        gb = self.b.float().t() @ self.b.float() - self.eye
        penalty = ga.square().sum().sqrt() + gb.square().sum().sqrt()
        return y, penalty


def get_inputs():
    return [torch.randn(8, 384, 1024).to(torch.bfloat16)]


def get_init_inputs():
    return [1024, 4096, 12, 32.0]
