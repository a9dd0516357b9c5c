"""A layer norm, an MLP with biases and exact GELU, and the residual, as in Whisper tiny, medium and large."""
import torch
import torch.nn.functional as F

WORKLOADS = {
    "decode": {"T": 5, "C": 1280, "H": 5120},
    "small": {"T": 1500, "C": 384, "H": 1536},
    "large": {"T": 12000, "C": 1024, "H": 4096},
}


class Model(torch.nn.Module):
    def __init__(self, C, H):
        super().__init__()
        self.norm = torch.nn.Parameter((1 + 0.1 * torch.randn(C)).half())
        self.norm_bias = torch.nn.Parameter(0.1 * torch.randn(C, dtype=torch.float16))
        self.up = torch.nn.Parameter(torch.randn(H, C, dtype=torch.float16) * C ** -0.5)
        self.up_bias = torch.nn.Parameter(0.1 * torch.randn(H, dtype=torch.float16))
        self.down = torch.nn.Parameter(torch.randn(C, H, dtype=torch.float16) * H ** -0.5)
        self.down_bias = torch.nn.Parameter(0.1 * torch.randn(C, dtype=torch.float16))

    def forward(self, x):
        h = F.layer_norm(x, x.shape[-1:], self.norm, self.norm_bias)
        return x + F.linear(F.gelu(F.linear(h, self.up, self.up_bias)), self.down, self.down_bias)


def get_inputs(T=1500, C=384, H=1536):
    return [torch.randn(T, C, dtype=torch.float16)]


def get_init_inputs(T=1500, C=384, H=1536):
    return [C, H]
