import math
import torch
import torch.nn as nn
import torch.nn.functional as F

TOKENS, DIM, FFN, RANKS = 2048, 2048, 5632, (8, 16, 64)


class LoRALinear(nn.Module):
    def __init__(self, n_in, n_out, rank, alpha):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(n_out, n_in) / math.sqrt(n_in), requires_grad=False)
        self.a = nn.Parameter(torch.randn(rank, n_in) / math.sqrt(n_in))
        self.b = nn.Parameter(torch.randn(n_out, rank) / math.sqrt(rank))
        self.scale = alpha / rank

    def forward(self, x):
        return F.linear(x, self.weight) + self.scale * F.linear(F.linear(x, self.a), self.b)


class Model(nn.Module):
    """SwiGLU MLP whose gate, up and down layers carry LoRA adapters of different ranks."""

    def __init__(self, dim, ffn, ranks, alpha):
        super().__init__()
        self.gate = LoRALinear(dim, ffn, ranks[0], alpha)
        self.up = LoRALinear(dim, ffn, ranks[1], alpha)
        self.down = LoRALinear(ffn, dim, ranks[2], alpha)
        self.to(torch.bfloat16)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


def get_inputs():
    return [torch.randn(TOKENS, DIM, dtype=torch.bfloat16)]


def get_init_inputs():
    return [DIM, FFN, RANKS, 8.0]
