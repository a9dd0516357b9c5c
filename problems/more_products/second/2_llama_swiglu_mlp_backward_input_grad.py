import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, hidden, inter):
        super().__init__()
        self.gate_proj = nn.Linear(hidden, inter, bias=False, dtype=torch.bfloat16)
        self.up_proj = nn.Linear(hidden, inter, bias=False, dtype=torch.bfloat16)
        self.down_proj = nn.Linear(inter, hidden, bias=False, dtype=torch.bfloat16)

    def forward(self, grad_out, gate, up):
        dh = torch.matmul(grad_out, self.down_proj.weight)
        sig = torch.sigmoid(gate.float())
        silu = gate.float() * sig
        dup = (dh.float() * silu).to(grad_out.dtype)
        dgate = (dh.float() * up.float() * (sig + silu * (1.0 - sig))).to(grad_out.dtype)
        dx = dgate @ self.gate_proj.weight + dup @ self.up_proj.weight
        return dx


def get_inputs():
    return [
        torch.randn(1, 2048, 4096, dtype=torch.bfloat16),
        torch.randn(1, 2048, 14336, dtype=torch.bfloat16),
        torch.randn(1, 2048, 14336, dtype=torch.bfloat16),
    ]


def get_init_inputs():
    return [4096, 14336]
