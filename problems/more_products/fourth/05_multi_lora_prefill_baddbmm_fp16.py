import math
import torch
import torch.nn as nn

SEQS, LEN, DIM, OUT, RANK = 12, 300, 1280, 3840, 24


class Model(nn.Module):
    """Prefill of 12 sequences, each with its own LoRA adapter (or none, by mask), added by baddbmm."""

    def __init__(self, seqs, dim, out, rank):
        super().__init__()
        self.base = nn.Linear(dim, out)
        self.lora_a = nn.Parameter(torch.randn(seqs, dim, rank) / math.sqrt(dim))
        self.lora_b = nn.Parameter(torch.randn(seqs, rank, out) / math.sqrt(rank))
        self.to(torch.float16)

    def forward(self, x, active):
        y = self.base(x)
        low = torch.bmm(x, self.lora_a)
        low = low.masked_fill(~active[:, None, None], 0.0)
        return torch.baddbmm(y, low, self.lora_b, alpha=0.25)


def get_inputs():
    return [torch.randn(SEQS, LEN, DIM, dtype=torch.float16), torch.rand(SEQS) < 0.75]


def get_init_inputs():
    return [SEQS, DIM, OUT, RANK]
