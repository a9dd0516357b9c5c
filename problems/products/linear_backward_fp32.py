"""Gradients of a linear with bias: of input, weight and bias, as in BERT base, GPT-2 XL and GPT-2's head."""
import torch

WORKLOADS = {
    "small": {"T": 512, "C": 768, "N": 3072},
    "middle": {"T": 1024, "C": 768, "N": 50257},
    "large": {"T": 8192, "C": 1600, "N": 6400},
}


class Model(torch.nn.Module):
    def __init__(self, C, N):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(N, C) * C ** -0.5)

    def forward(self, dy, x):
        return dy @ self.weight, dy.T @ x, dy.sum(0)


def get_inputs(T=512, C=768, N=3072):
    return [torch.randn(T, N), torch.randn(T, C)]


def get_init_inputs(T=512, C=768, N=3072):
    return [C, N]
