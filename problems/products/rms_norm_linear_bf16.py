"""An RMS norm, then the joined projection to queries, keys and values, as in Llama and Mistral."""
import torch
import torch.nn.functional as F

WORKLOADS = {
    "decode": {"T": 4, "C": 4096, "N": 6144},
    "small": {"T": 512, "C": 2048, "N": 3072},
    "large": {"T": 8192, "C": 8192, "N": 10240},
}


class Model(torch.nn.Module):
    def __init__(self, C, N):
        super().__init__()
        self.norm = torch.nn.Parameter((1 + 0.1 * torch.randn(C)).bfloat16())
        self.weight = torch.nn.Parameter(torch.randn(N, C, dtype=torch.bfloat16) * C ** -0.5)

    def forward(self, x):
        f = x.float()
        f = f * torch.rsqrt(f.square().mean(-1, keepdim=True) + 1e-5)
        return F.linear(self.norm * f.to(x.dtype), self.weight)


def get_inputs(T=512, C=2048, N=3072):
    return [torch.randn(T, C, dtype=torch.bfloat16)]


def get_init_inputs(T=512, C=2048, N=3072):
    return [C, N]
