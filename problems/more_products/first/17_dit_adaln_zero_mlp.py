import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, dim, ratio):
        super().__init__()
        kw = dict(dtype=torch.bfloat16)
        self.dim = dim
        self.mod = nn.Linear(dim, 3 * dim, **kw)
        self.fc1 = nn.Linear(dim, ratio * dim, **kw)
        self.fc2 = nn.Linear(ratio * dim, dim, **kw)

    def forward(self, x, c):
        shift, scale, gate = self.mod(F.silu(c)).unsqueeze(1).chunk(3, dim=-1)
        h = F.layer_norm(x, (self.dim,), eps=1e-6)
        h = h * (1 + scale) + shift
        h = self.fc2(F.gelu(self.fc1(h), approximate="tanh"))
        return x + gate * h


def get_inputs():
    return [torch.randn(16, 256, 1152, dtype=torch.bfloat16), torch.randn(16, 1152, dtype=torch.bfloat16)]


def get_init_inputs():
    return [1152, 4]
