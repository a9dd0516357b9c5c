"""A linear by int8 weights, scale and zero point for groups of 64 or 128, as in Llama with weights of eight bits."""
import torch
import torch.nn.functional as F

WORKLOADS = {
    "decode": {"T": 1, "N": 11008, "G": 32, "D": 128},
    "small": {"T": 16, "N": 13824, "G": 80, "D": 64},
    "large": {"T": 1024, "N": 10240, "G": 64, "D": 128},
}


class Model(torch.nn.Module):
    def forward(self, x, weight, scale, zero):
        w = (weight.float() - zero[..., None].float()) * scale[..., None].float()
        return F.linear(x, w.to(x.dtype).flatten(1))


def get_inputs(T=16, N=13824, G=80, D=64):
    scale = (torch.rand(N, G, dtype=torch.bfloat16) + 0.5) / (73 * (G * D) ** 0.5)
    return [torch.randn(T, G * D, dtype=torch.bfloat16), torch.randint(-128, 128, (N, G, D), dtype=torch.int8),
            scale, torch.randint(-8, 9, (N, G), dtype=torch.int8)]
