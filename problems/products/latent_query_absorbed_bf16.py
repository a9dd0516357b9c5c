"""Queries of multi-head latent attention, in decoding taken into the keys' latent space: DeepSeek-V2, V3, MiniCPM3."""
import torch
import torch.nn.functional as F

WORKLOADS = {
    "decode": {"T": 4, "C": 7168, "R": 1536, "N": 128, "D": 128, "E": 64, "L": 512},
    "small": {"T": 48, "C": 2560, "R": 768, "N": 40, "D": 64, "E": 32, "L": 256},
    "large": {"T": 256, "C": 5120, "R": 1536, "N": 128, "D": 128, "E": 64, "L": 512},
}


class Model(torch.nn.Module):
    def __init__(self, C, R, N, D, E, L):
        super().__init__()
        self.heads = N, D, E
        self.down = torch.nn.Parameter(torch.randn(R, C, dtype=torch.bfloat16) * C ** -0.5)
        self.norm = torch.nn.Parameter((1 + 0.1 * torch.randn(R)).bfloat16())
        self.up = torch.nn.Parameter(torch.randn(N * (D + E), R, dtype=torch.bfloat16) * R ** -0.5)
        self.key = torch.nn.Parameter(torch.randn(N, D, L, dtype=torch.bfloat16) * D ** -0.5)

    def forward(self, x):
        N, D, E = self.heads
        c = F.linear(x, self.down).float()
        c = (c * torch.rsqrt(c.square().mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * self.norm
        plain, turned = F.linear(c, self.up).view(-1, N, D + E).split([D, E], dim=-1)
        return torch.einsum("tnd,ndl->tnl", plain, self.key).contiguous(), turned.contiguous()


def get_inputs(T=48, C=2560, R=768, N=40, D=64, E=32, L=256):
    return [torch.randn(T, C, dtype=torch.bfloat16)]


def get_init_inputs(T=48, C=2560, R=768, N=40, D=64, E=32, L=256):
    return [C, R, N, D, E, L]
