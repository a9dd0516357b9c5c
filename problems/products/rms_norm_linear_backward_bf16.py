"""Gradients of an RMS norm and the linear after it: of input, norm and weight, as in training Llama and Qwen."""
import torch

WORKLOADS = {
    "small": {"T": 512, "C": 896, "N": 4864},
    "middle": {"T": 2048, "C": 2048, "N": 3072},
    "large": {"T": 4096, "C": 8192, "N": 10240},
}


class Model(torch.nn.Module):
    def __init__(self, C, N):
        super().__init__()
        self.norm = torch.nn.Parameter((1 + 0.1 * torch.randn(C)).bfloat16())
        self.weight = torch.nn.Parameter(torch.randn(N, C, dtype=torch.bfloat16) * C ** -0.5)

    def forward(self, dy, x, rstd):
        rstd = rstd[:, None]
        hat = x.float() * rstd
        dweight = dy.T @ (hat * self.norm.float()).to(x.dtype)
        dnormed = (dy @ self.weight).float()
        g = dnormed * self.norm.float()
        dx = rstd * (g - hat * (g * hat).mean(-1, keepdim=True))
        return dx.to(x.dtype), (dnormed * hat).sum(0).to(x.dtype), dweight


def get_inputs(T=2048, C=2048, N=3072):
    return [torch.randn(T, N, dtype=torch.bfloat16), torch.randn(T, C, dtype=torch.bfloat16), torch.rand(T) + 0.5]


def get_init_inputs(T=2048, C=2048, N=3072):
    return [C, N]
