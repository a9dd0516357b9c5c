import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """DiT feed-forward half: conditioning -> shift/scale/gate, modulated LayerNorm, GELU MLP, gated residual."""

    def __init__(self, dim, ratio):
        super().__init__()
        self.dim = dim
        self.ada = nn.Linear(dim, 3 * dim).to(torch.bfloat16)
        self.fc1 = nn.Linear(dim, ratio * dim).to(torch.bfloat16)
        self.fc2 = nn.Linear(ratio * dim, dim).to(torch.bfloat16)

    def forward(self, x, c):
        shift, scale, gate = self.ada(F.silu(c)).chunk(3, dim=-1)
        h = F.layer_norm(x, (self.dim,), eps=1e-6)
        h = h * (1 + scale.unsqueeze(1)) + shift.unsqueeze(1)
        h = self.fc2(F.gelu(self.fc1(h), approximate="tanh"))
        return x + gate.unsqueeze(1) * h


def get_inputs():
    return [
        torch.randn(6, 256, 1152).to(torch.bfloat16),
        (2 * torch.randn(6, 1152)).to(torch.bfloat16),
    ]


def get_init_inputs():
    return [1152, 4]
