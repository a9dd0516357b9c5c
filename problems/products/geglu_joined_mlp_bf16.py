"""A GeGLU MLP (GELU by tanh) with one weight for gate and up, as in Gemma 7B and Gemma 2 2B and 9B."""
import torch
import torch.nn.functional as F

WORKLOADS = {
    "decode": {"T": 8, "C": 3072, "H": 24576},
    "small": {"T": 128, "C": 2304, "H": 9216},
    "large": {"T": 4096, "C": 3584, "H": 14336},
}


class Model(torch.nn.Module):
    def __init__(self, C, H):
        super().__init__()
        self.gate_up = torch.nn.Parameter(torch.randn(2 * H, C, dtype=torch.bfloat16) * C ** -0.5)
        self.down = torch.nn.Parameter(torch.randn(C, H, dtype=torch.bfloat16) * H ** -0.5)

    def forward(self, x):
        gate, up = F.linear(x, self.gate_up).chunk(2, dim=-1)
        return F.linear(F.gelu(gate, approximate="tanh") * up, self.down)


def get_inputs(T=128, C=2304, H=9216):
    return [torch.randn(T, C, dtype=torch.bfloat16)]


def get_init_inputs(T=128, C=2304, H=9216):
    return [C, H]
