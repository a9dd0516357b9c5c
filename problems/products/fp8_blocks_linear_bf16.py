"""A linear in float8 e4m3, scales for 1 x 128 of the input and 128 x 128 of the weight, as in DeepSeek-V3."""
import torch

WORKLOADS = {
    "decode": {"T": 32, "C": 7168, "N": 4096},
    "small": {"T": 256, "C": 2048, "N": 7168},
    "large": {"T": 4096, "C": 7168, "N": 18432},
}


def through_fp8(blocks, axes):
    step = blocks.abs().amax(axes, keepdim=True).clamp(min=1e-12) / 448
    return (blocks / step).to(torch.float8_e4m3fn).float() * step


class Model(torch.nn.Module):
    def __init__(self, C, N):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(N, C, dtype=torch.bfloat16) * C ** -0.5)

    def forward(self, x):
        (T, C), N = x.shape, self.weight.shape[0]
        a = through_fp8(x.float().view(T, C // 128, 128), (2,)).view(T, C)
        w = through_fp8(self.weight.float().view(N // 128, 128, C // 128, 128), (1, 3)).view(N, C)
        return (a @ w.T).to(x.dtype)


def get_inputs(T=256, C=2048, N=7168):
    return [torch.randn(T, C, dtype=torch.bfloat16)]


def get_init_inputs(T=256, C=2048, N=7168):
    return [C, N]
