import torch
import torch.nn as nn
import torch.nn.functional as F


class GemmaRMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(0.1 * torch.randn(dim).to(torch.bfloat16))

    def forward(self, x):
        out = x.float()
        out = out * torch.rsqrt(out.pow(2).mean(-1, keepdim=True) + self.eps)
        return (out * (1.0 + self.weight.float())).type_as(x)


class Model(nn.Module):
    def __init__(self, hidden, inter):
        super().__init__()
        self.pre_norm = GemmaRMSNorm(hidden)
        self.post_norm = GemmaRMSNorm(hidden)
        self.gate_proj = nn.Linear(hidden, inter, bias=False, dtype=torch.bfloat16)
        self.up_proj = nn.Linear(hidden, inter, bias=False, dtype=torch.bfloat16)
        self.down_proj = nn.Linear(inter, hidden, bias=False, dtype=torch.bfloat16)

    def forward(self, hidden_states):
        h = self.pre_norm(hidden_states)
        h = F.gelu(self.gate_proj(h), approximate="tanh") * self.up_proj(h)
        h = self.post_norm(self.down_proj(h))
        return hidden_states + h


def get_inputs():
    return [torch.randn(1, 1, 3584, dtype=torch.bfloat16)]


def get_init_inputs():
    return [3584, 14336]
