"""Two decode rows through a ReGLU MLP whose joined weight is int8 with a scale for each channel."""
import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS, D, FF = 2, 4096, 11008

class Model(nn.Module):
    def __init__(self, d, ff):
        super().__init__()
        self.register_buffer("up_q", torch.randint(-127, 128, (2 * ff, d), dtype=torch.int8))
        self.up_s = nn.Parameter(((0.5 + torch.rand(2 * ff)) * d ** -0.5 / 73).bfloat16())
        self.register_buffer("down_q", torch.randint(-127, 128, (d, ff), dtype=torch.int8))
        self.down_s = nn.Parameter(((0.5 + torch.rand(d)) * ff ** -0.5 / 73).bfloat16())

    def forward(self, x):
        y = F.linear(x, self.up_q.to(x.dtype)) * self.up_s
        gate, up = y.chunk(2, dim=-1)
        return F.linear(F.relu(gate) * up, self.down_q.to(x.dtype)) * self.down_s

def get_inputs():
    return [torch.randn(ROWS, D).bfloat16()]

def get_init_inputs():
    return [D, FF]
