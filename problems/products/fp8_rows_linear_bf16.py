"""A linear in float8 e4m3 with a scale for each token and each channel, found on the way, as in Llama 3 in float8."""
import torch

WORKLOADS = {
    "decode": {"T": 16, "C": 4096, "N": 14336},
    "small": {"T": 512, "C": 2048, "N": 8192},
    "large": {"T": 4096, "C": 8192, "N": 10240},
}


def quantised(x):
    f = x.float()
    step = f.abs().amax(-1, keepdim=True).clamp(min=1e-12) / 448
    return (f / step).to(torch.float8_e4m3fn), step


class Model(torch.nn.Module):
    def __init__(self, C, N):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(N, C, dtype=torch.bfloat16) * C ** -0.5)
        self.bias = torch.nn.Parameter(0.1 * torch.randn(N, dtype=torch.bfloat16))

    def forward(self, x):
        q, step = quantised(x)
        w, weight_step = quantised(self.weight)
        return ((q.float() @ w.float().T) * step * weight_step.T + self.bias.float()).to(x.dtype)


def get_inputs(T=512, C=2048, N=8192):
    return [torch.randn(T, C, dtype=torch.bfloat16)]


def get_init_inputs(T=512, C=2048, N=8192):
    return [C, N]
