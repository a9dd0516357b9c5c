"""Queries, keys and values with biases, in heads, with rotary embedding of queries and keys, as in Qwen2.5."""
import torch
import torch.nn.functional as F

WORKLOADS = {
    "decode": {"T": 16, "C": 3584, "N": 28, "M": 4, "D": 128},
    "small": {"T": 512, "C": 896, "N": 14, "M": 2, "D": 64},
    "large": {"T": 2048, "C": 8192, "N": 64, "M": 8, "D": 128},
}


def rotate(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


class Model(torch.nn.Module):
    def __init__(self, C, N, M, D):
        super().__init__()
        self.sizes = N, M, D
        self.weight = torch.nn.Parameter(torch.randn((N + 2 * M) * D, C, dtype=torch.float16) * C ** -0.5)
        self.bias = torch.nn.Parameter(0.1 * torch.randn((N + 2 * M) * D, dtype=torch.float16))

    def forward(self, x, cos, sin):
        N, M, D = self.sizes
        heads = F.linear(x, self.weight, self.bias).view(-1, N + 2 * M, D).transpose(0, 1)
        q, k, v = heads.split([N, M, M])
        return rotate(q, cos, sin).contiguous(), rotate(k, cos, sin).contiguous(), v.contiguous()


def get_inputs(T=512, C=896, N=14, M=2, D=64):
    angles = [2 * torch.rand(T, D // 2, dtype=torch.float16) - 1 for _ in range(2)]
    return [torch.randn(T, C, dtype=torch.float16), *angles]


def get_init_inputs(T=512, C=896, N=14, M=2, D=64):
    return [C, N, M, D]
