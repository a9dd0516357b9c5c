import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH, SEQ, DIM, BLOCKS = 2, 1023, 1600, 4


class MonarchLinear(nn.Module):
    """Product of two block-diagonal matrices with an interleaving permutation between and after them."""

    def __init__(self, d_in, d_out, k):
        super().__init__()
        i, o = d_in // k, d_out // k
        m = min(i, o)
        self.k = k
        self.w1 = nn.Parameter(torch.randn(k, m, i, dtype=torch.bfloat16) * i ** -0.5)
        self.w2 = nn.Parameter(torch.randn(k, o, m, dtype=torch.bfloat16) * m ** -0.5)
        self.bias = nn.Parameter(0.1 * torch.randn(d_out, dtype=torch.bfloat16))

    def forward(self, x):
        shape = x.shape[:-1]
        n = x.numel() // x.shape[-1]
        h = x.reshape(n, self.k, -1).transpose(0, 1)          # k, n, i
        h = torch.bmm(h, self.w1.transpose(1, 2))             # k, n, m
        m = h.shape[-1]
        h = h.permute(1, 2, 0).reshape(n, self.k, m)          # permuted regrouping
        h = torch.bmm(h.transpose(0, 1), self.w2.transpose(1, 2))  # k, n, o
        h = h.permute(1, 2, 0).reshape(n, -1)
        return (h + self.bias).view(*shape, -1)


class Model(nn.Module):
    """GPT2-XL-width MLP with Monarch (block-diagonal) layers, pre-LayerNorm and residual."""

    def __init__(self, dim: int, expand: int, blocks: int):
        super().__init__()
        self.ln = nn.LayerNorm(dim, dtype=torch.bfloat16)
        self.up = MonarchLinear(dim, dim * expand, blocks)
        self.down = MonarchLinear(dim * expand, dim, blocks)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.ln(x))))


def get_inputs():
    return [torch.randn(BATCH, SEQ, DIM, dtype=torch.bfloat16)]


def get_init_inputs():
    return [DIM, 4, BLOCKS]
