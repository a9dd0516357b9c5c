import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """int8 x int8 projection: per-token scale and zero point, per-channel weight scale, bias, GELU, residual-free bf16 output."""

    def __init__(self, in_f, out_f):
        super().__init__()
        self.register_buffer("qweight", torch.randint(-127, 128, (out_f, in_f)).to(torch.int8))
        self.register_buffer("w_scale", (0.5 + torch.rand(out_f)) / (73.0 * in_f ** 0.5))
        self.bias = nn.Parameter(0.1 * torch.randn(out_f))

    def forward(self, xq, x_scale, x_zero):
        acc = xq.float() @ self.qweight.float().t()
        colsum = self.qweight.float().sum(dim=1)
        acc = acc - x_zero.float().unsqueeze(1) * colsum.unsqueeze(0)
        y = acc * x_scale.unsqueeze(1) * self.w_scale.unsqueeze(0) + self.bias
        return F.gelu(y).to(torch.bfloat16)


T, K, N = 1200, 2048, 5120


def get_inputs():
    return [
        torch.randint(-128, 128, (T, K)).to(torch.int8),
        (0.5 + torch.rand(T)) / 73.0,
        torch.randint(-20, 21, (T,)).to(torch.int32),
    ]


def get_init_inputs():
    return [K, N]
