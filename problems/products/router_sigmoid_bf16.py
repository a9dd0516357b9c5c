"""A router's sigmoid scores, and with the balancing bias, as in DeepSeek-V3, Moonlight and GLM-4.5-Air."""
import torch
import torch.nn.functional as F

WORKLOADS = {
    "decode": {"T": 64, "C": 7168, "E": 256},
    "small": {"T": 2048, "C": 2048, "E": 64},
    "large": {"T": 16384, "C": 4096, "E": 128},
}


class Model(torch.nn.Module):
    def __init__(self, C, E):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(E, C, dtype=torch.bfloat16) * C ** -0.5)
        self.bias = torch.nn.Parameter(0.1 * torch.randn(E))

    def forward(self, x):
        scores = torch.sigmoid(F.linear(x.float(), self.weight.float()))
        return scores, scores + self.bias


def get_inputs(T=2048, C=2048, E=64):
    return [torch.randn(T, C, dtype=torch.bfloat16)]


def get_init_inputs(T=2048, C=2048, E=64):
    return [C, E]
