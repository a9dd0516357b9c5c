"""SwiGLU's gate and up by weights of four bits, scale and zero point for groups of 128, as in Llama 2 and Mistral."""
import torch
import torch.nn.functional as F

WORKLOADS = {
    "decode": {"T": 1, "C": 4096, "H": 11008},
    "batch": {"T": 16, "C": 5120, "H": 13824},
    "prompt": {"T": 1024, "C": 4096, "H": 14336},
}


class Model(torch.nn.Module):
    def forward(self, x, packed, scale, zero):
        N, G = scale.shape
        w = torch.stack([packed & 15, packed >> 4], dim=-1).view(N, G, 128)
        w = (w.float() - zero[..., None].float()) * scale[..., None].float()
        gate, up = F.linear(x, w.to(x.dtype).view(N, G * 128)).chunk(2, dim=-1)
        return F.silu(gate) * up


def get_inputs(T=16, C=5120, H=13824):
    return [torch.randn(T, C, dtype=torch.bfloat16), torch.randint(0, 256, (2 * H, C // 2), dtype=torch.uint8),
            (torch.rand(2 * H, C // 128, dtype=torch.bfloat16) + 0.5) / (5 * C ** 0.5),
            torch.randint(6, 10, (2 * H, C // 128), dtype=torch.uint8)]
