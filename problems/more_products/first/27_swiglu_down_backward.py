import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, grad_out, gate_up, w_down):
        gate, up = gate_up.float().chunk(2, dim=-1)
        sig = torch.sigmoid(gate)
        act = gate * sig
        dh = (grad_out @ w_down).float()
        d_up = dh * act
        d_gate = dh * up * (sig + act * (1 - sig))
        h = (act * up).to(grad_out.dtype)
        grad_w = grad_out.t() @ h
        return torch.cat((d_gate, d_up), dim=-1).to(grad_out.dtype), grad_w


def get_inputs():
    t, d, i = 4096, 2048, 5632
    return [
        torch.randn(t, d, dtype=torch.bfloat16),
        torch.randn(t, 2 * i, dtype=torch.bfloat16),
        (torch.randn(d, i) / i**0.5).bfloat16(),
    ]


def get_init_inputs():
    return []
