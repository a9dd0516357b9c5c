import math
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, d_model, d_ff, eps):
        super().__init__()
        self.eps = eps
        self.ln_weight = nn.Parameter(torch.ones(d_model, dtype=torch.bfloat16))
        self.wi_0 = nn.Linear(d_model, d_ff, bias=False, dtype=torch.bfloat16)
        self.wi_1 = nn.Linear(d_model, d_ff, bias=False, dtype=torch.bfloat16)
        self.wo = nn.Linear(d_ff, d_model, bias=False, dtype=torch.float32)

    def forward(self, hidden_states):
        var = hidden_states.to(torch.float32).pow(2).mean(-1, keepdim=True)
        h = hidden_states * torch.rsqrt(var + self.eps)
        h = self.ln_weight * h.to(self.ln_weight.dtype)
        g = self.wi_0(h)
        g = 0.5 * g * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (g + 0.044715 * torch.pow(g, 3.0))))
        h = (g * self.wi_1(h)).to(self.wo.weight.dtype)
        return (hidden_states + self.wo(h)).to(hidden_states.dtype)


def get_inputs():
    return [torch.randn(4, 300, 2048, dtype=torch.bfloat16)]


def get_init_inputs():
    return [2048, 5120, 1e-6]
