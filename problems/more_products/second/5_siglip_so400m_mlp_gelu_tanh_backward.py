import math
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, hidden, inter):
        super().__init__()
        self.fc1 = nn.Linear(hidden, inter, dtype=torch.bfloat16)
        self.fc2 = nn.Linear(inter, hidden, dtype=torch.bfloat16)

    def forward(self, grad_out, pre_act):
        d_act = torch.matmul(grad_out, self.fc2.weight).float()
        h = pre_act.float()
        k = math.sqrt(2.0 / math.pi)
        t = torch.tanh(k * (h + 0.044715 * h * h * h))
        d_tanh = (1.0 - t * t) * k * (1.0 + 3.0 * 0.044715 * h * h)
        d_pre = d_act * (0.5 * (1.0 + t) + 0.5 * h * d_tanh)
        d_bias = d_pre.sum(dim=(0, 1))
        dx = torch.matmul(d_pre.to(grad_out.dtype), self.fc1.weight)
        return dx, d_bias.to(grad_out.dtype)


def get_inputs():
    return [
        torch.randn(4, 729, 1152, dtype=torch.bfloat16),
        torch.randn(4, 729, 4304, dtype=torch.bfloat16),
    ]


def get_init_inputs():
    return [1152, 4304]
