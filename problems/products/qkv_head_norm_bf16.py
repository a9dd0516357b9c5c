"""Queries, keys and values by one product, with an RMS norm of each head's query and key, as in Qwen3."""
import torch
import torch.nn.functional as F

WORKLOADS = {
    "decode": {"T": 16, "C": 4096, "N": 32, "M": 8, "D": 128},
    "small": {"T": 512, "C": 1024, "N": 16, "M": 8, "D": 128},
    "large": {"T": 4096, "C": 5120, "N": 64, "M": 8, "D": 128},
}


def head_norm(x, weight):
    f = x.float()
    return (f * torch.rsqrt(f.square().mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * weight


class Model(torch.nn.Module):
    def __init__(self, C, N, M, D):
        super().__init__()
        self.sizes = N, M, D
        self.weight = torch.nn.Parameter(torch.randn((N + 2 * M) * D, C, dtype=torch.bfloat16) * C ** -0.5)
        self.query_norm = torch.nn.Parameter((1 + 0.1 * torch.randn(D)).bfloat16())
        self.key_norm = torch.nn.Parameter((1 + 0.1 * torch.randn(D)).bfloat16())

    def forward(self, x):
        N, M, D = self.sizes
        q, k, v = F.linear(x, self.weight).view(-1, N + 2 * M, D).split([N, M, M], dim=1)
        return head_norm(q, self.query_norm), head_norm(k, self.key_norm), v.contiguous()


def get_inputs(T=512, C=1024, N=16, M=8, D=128):
    return [torch.randn(T, C, dtype=torch.bfloat16)]


def get_init_inputs(T=512, C=1024, N=16, M=8, D=128):
    return [C, N, M, D]
