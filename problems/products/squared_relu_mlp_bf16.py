"""An MLP with the square of ReLU, as in Minitron 4B, Nemotron-4 15B and Nemotron-H 8B."""
import torch
import torch.nn.functional as F

WORKLOADS = {
    "decode": {"T": 1, "C": 6144, "H": 24576},
    "small": {"T": 64, "C": 3072, "H": 9216},
    "large": {"T": 4096, "C": 4096, "H": 21504},
}


class Model(torch.nn.Module):
    def __init__(self, C, H):
        super().__init__()
        self.up = torch.nn.Parameter(torch.randn(H, C, dtype=torch.bfloat16) * C ** -0.5)
        self.down = torch.nn.Parameter(torch.randn(C, H, dtype=torch.bfloat16) * H ** -0.5)

    def forward(self, x):
        return F.linear(F.relu(F.linear(x, self.up)).square(), self.down)


def get_inputs(T=64, C=3072, H=9216):
    return [torch.randn(T, C, dtype=torch.bfloat16)]


def get_init_inputs(T=64, C=3072, H=9216):
    return [C, H]
