"""A block's last projection, added to the residual stream, and the next block's RMS norm, as in Qwen2.5 and Llama."""
import torch
import torch.nn.functional as F

WORKLOADS = {
    "decode": {"T": 8, "K": 18944, "C": 3584},
    "small": {"T": 384, "K": 4096, "C": 4096},
    "large": {"T": 6144, "K": 5120, "C": 5120},
}


class Model(torch.nn.Module):
    def __init__(self, K, C):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(C, K, dtype=torch.bfloat16) * K ** -0.5)
        self.norm = torch.nn.Parameter((1 + 0.1 * torch.randn(C)).bfloat16())

    def forward(self, x, residual):
        h = residual + F.linear(x, self.weight)
        f = h.float()
        normed = f * torch.rsqrt(f.square().mean(-1, keepdim=True) + 1e-6) * self.norm.float()
        return normed.to(h.dtype), h


def get_inputs(T=384, K=4096, C=4096):
    return [torch.randn(T, K, dtype=torch.bfloat16), torch.randn(T, C, dtype=torch.bfloat16)]


def get_init_inputs(T=384, K=4096, C=4096):
    return [K, C]
