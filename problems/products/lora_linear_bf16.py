"""A linear with a low-rank adapter that is not merged, as in fine-tuned Llama 2 7B and Llama 3 8B and 70B."""
import torch
import torch.nn.functional as F

WORKLOADS = {
    "decode": {"T": 4, "C": 4096, "N": 14336, "R": 16},
    "small": {"T": 512, "C": 4096, "N": 4096, "R": 8},
    "large": {"T": 4096, "C": 8192, "N": 8192, "R": 64},
}


class Model(torch.nn.Module):
    def __init__(self, C, N, R):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(N, C, dtype=torch.bfloat16) * C ** -0.5)
        self.a = torch.nn.Parameter(torch.randn(R, C, dtype=torch.bfloat16) * C ** -0.5)
        self.b = torch.nn.Parameter(torch.randn(N, R, dtype=torch.bfloat16) * R ** -0.5)

    def forward(self, x):
        return F.linear(x, self.weight) + 2.0 * F.linear(F.linear(x, self.a), self.b)


def get_inputs(T=512, C=4096, N=4096, R=8):
    return [torch.randn(T, C, dtype=torch.bfloat16)]


def get_init_inputs(T=512, C=4096, N=4096, R=8):
    return [C, N, R]
