"""A SwiGLU MLP with weights of its own for gate, up and down, as in Llama 2 7B and 13B and Llama 3.2 1B."""
import torch
import torch.nn.functional as F

WORKLOADS = {
    "decode": {"T": 16, "C": 4096, "H": 11008},
    "small": {"T": 256, "C": 2048, "H": 8192},
    "large": {"T": 4096, "C": 5120, "H": 13824},
}


class Model(torch.nn.Module):
    def __init__(self, C, H):
        super().__init__()
        self.gate = torch.nn.Parameter(torch.randn(H, C, dtype=torch.bfloat16) * C ** -0.5)
        self.up = torch.nn.Parameter(torch.randn(H, C, dtype=torch.bfloat16) * C ** -0.5)
        self.down = torch.nn.Parameter(torch.randn(C, H, dtype=torch.bfloat16) * H ** -0.5)

    def forward(self, x):
        return F.linear(F.silu(F.linear(x, self.gate)) * F.linear(x, self.up), self.down)


def get_inputs(T=256, C=2048, H=8192):
    return [torch.randn(T, C, dtype=torch.bfloat16)]


def get_init_inputs(T=256, C=2048, H=8192):
    return [C, H]
