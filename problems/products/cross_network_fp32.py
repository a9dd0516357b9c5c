"""Three low-rank cross layers, each the first input times a chain of two products, as in DCN-v2 and DLRM-DCNv2."""
import torch
import torch.nn.functional as F

WORKLOADS = {
    "serve": {"B": 256, "C": 3456, "R": 512},
    "small": {"B": 4096, "C": 1024, "R": 256},
    "large": {"B": 8192, "C": 3456, "R": 512},
}


class Model(torch.nn.Module):
    def __init__(self, C, R):
        super().__init__()
        self.v = torch.nn.ParameterList([torch.randn(R, C) * C ** -0.5 for _ in range(3)])
        self.u = torch.nn.ParameterList([torch.randn(C, R) * R ** -0.5 for _ in range(3)])
        self.bias = torch.nn.ParameterList([0.1 * torch.randn(C) for _ in range(3)])

    def forward(self, first):
        x = first
        for v, u, bias in zip(self.v, self.u, self.bias):
            x = first * F.linear(F.linear(x, v), u, bias) + x
        return x


def get_inputs(B=4096, C=1024, R=256):
    return [torch.randn(B, C)]


def get_init_inputs(B=4096, C=1024, R=256):
    return [C, R]
