import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """One MLP-Mixer block: token mixing over the transposed sequence, then channel mixing."""

    def __init__(self, tokens, dim, d_tok, d_ch):
        super().__init__()
        self.n1 = nn.LayerNorm(dim)
        self.n2 = nn.LayerNorm(dim)
        self.t1 = nn.Linear(tokens, d_tok)
        self.t2 = nn.Linear(d_tok, tokens)
        self.c1 = nn.Linear(dim, d_ch)
        self.c2 = nn.Linear(d_ch, dim)

    def forward(self, x):
        y = self.n1(x).transpose(1, 2)
        y = self.t2(F.gelu(self.t1(y))).transpose(1, 2)
        x = x + y
        return x + self.c2(F.gelu(self.c1(self.n2(x))))


def get_inputs():
    return [torch.randn(16, 196, 512)]


def get_init_inputs():
    return [196, 512, 256, 2048]
