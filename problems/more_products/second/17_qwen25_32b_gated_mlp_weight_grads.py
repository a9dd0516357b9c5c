import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, hidden, inter):
        super().__init__()
        self.down_proj = nn.Linear(inter, hidden, bias=False, dtype=torch.bfloat16)

    def forward(self, x, gate, up, grad_out):
        dh = grad_out @ self.down_proj.weight
        sig = torch.sigmoid(gate)
        d_up = dh * F.silu(gate)
        d_gate = dh * up * sig * (1 + gate * (1 - sig))
        dw_gate = torch.mm(d_gate.t(), x)
        dw_up = torch.mm(d_up.t(), x)
        return dw_gate, dw_up


def get_inputs():
    return [
        torch.randn(512, 5120, dtype=torch.bfloat16),
        torch.randn(512, 27648, dtype=torch.bfloat16),
        torch.randn(512, 27648, dtype=torch.bfloat16),
        torch.randn(512, 5120, dtype=torch.bfloat16),
    ]


def get_init_inputs():
    return [5120, 27648]
