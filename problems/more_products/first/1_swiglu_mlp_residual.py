import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, hidden, inter):
        super().__init__()
        self.gate_up = nn.Linear(hidden, 2 * inter, bias=False, dtype=torch.bfloat16)
        self.down = nn.Linear(inter, hidden, bias=False, dtype=torch.bfloat16)

    def forward(self, x):
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        h = F.silu(gate) * up
        return x + self.down(h)


def get_inputs():
    return [torch.randn(1, 2048, 4096, dtype=torch.bfloat16)]


def get_init_inputs():
    return [4096, 11008]
