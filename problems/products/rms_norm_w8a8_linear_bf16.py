"""An RMS norm, its rows as int8, and a linear by int8 weights with channel scales, as in Llama and Qwen2.5 in W8A8."""
import torch

WORKLOADS = {
    "decode": {"T": 16, "C": 4096, "N": 6144},
    "small": {"T": 256, "C": 3584, "N": 4608},
    "large": {"T": 4096, "C": 5120, "N": 15360},
}


class Model(torch.nn.Module):
    def __init__(self, C, N):
        super().__init__()
        self.norm = torch.nn.Parameter((1 + 0.1 * torch.randn(C)).bfloat16())
        self.register_buffer("scale", (torch.rand(N) + 0.5) / (73 * C ** 0.5))

    def forward(self, x, weight):
        f = x.float()
        f = f * torch.rsqrt(f.square().mean(-1, keepdim=True) + 1e-6) * self.norm.float()
        step = f.abs().amax(-1, keepdim=True).clamp(min=1e-5) / 127
        q = (f / step).round().clamp(-127, 127).to(torch.int8)
        return ((q.float() @ weight.float().T) * step * self.scale).to(x.dtype)


def get_inputs(T=256, C=3584, N=4608):
    return [torch.randn(T, C, dtype=torch.bfloat16), torch.randint(-127, 128, (N, C), dtype=torch.int8)]


def get_init_inputs(T=256, C=3584, N=4608):
    return [C, N]
