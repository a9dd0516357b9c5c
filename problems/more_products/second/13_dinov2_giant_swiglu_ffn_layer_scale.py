import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.norm2 = nn.LayerNorm(dim, eps=1e-6, dtype=torch.bfloat16)
        self.weights_in = nn.Linear(dim, 2 * hidden, dtype=torch.bfloat16)
        self.weights_out = nn.Linear(hidden, dim, dtype=torch.bfloat16)
        self.lambda1 = nn.Parameter(torch.rand(dim).to(torch.bfloat16))

    def forward(self, hidden_states):
        h = self.weights_in(self.norm2(hidden_states))
        x1, x2 = h.chunk(2, dim=-1)
        h = self.weights_out(F.silu(x1) * x2)
        return hidden_states + h * self.lambda1


def get_inputs():
    return [torch.randn(4, 1370, 1536, dtype=torch.bfloat16)]


def get_init_inputs():
    return [1536, 4096]
