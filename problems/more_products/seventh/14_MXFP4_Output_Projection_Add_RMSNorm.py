import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """MXFP4 weights (two e2m1 codes per byte, power-of-two scale per 32): biased output projection of 16 rows, residual, RMSNorm."""

    def __init__(self, k, n):
        super().__init__()
        half = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
        self.register_buffer("lut", torch.tensor(half + [-v for v in half]).to(torch.bfloat16))
        self.register_buffer("blocks", torch.randint(0, 256, (n, k // 32, 16), dtype=torch.int64).to(torch.uint8))
        self.register_buffer("scales", torch.randint(118, 122, (n, k // 32), dtype=torch.int64).to(torch.uint8))
        self.bias = nn.Parameter((0.1 * torch.randn(n)).to(torch.bfloat16))
        self.norm = nn.Parameter((1.0 + 0.1 * torch.randn(n)).to(torch.bfloat16))

    def forward(self, ctx, x):
        n, g, _ = self.blocks.shape
        lo = (self.blocks & 15).to(torch.int32)
        hi = (self.blocks >> 4).to(torch.int32)
        codes = torch.stack((lo, hi), dim=-1).view(n, g, 32)
        scale = torch.exp2(self.scales.float() - 127.0).to(x.dtype)
        w = (self.lut[codes] * scale[..., None]).view(n, g * 32)
        h = x + F.linear(ctx, w, self.bias)
        return h, F.rms_norm(h, (n,), self.norm, 1e-5)


def get_inputs():
    return [
        (0.5 * torch.randn(16, 4096)).to(torch.bfloat16),
        torch.randn(16, 2880).to(torch.bfloat16),
    ]


def get_init_inputs():
    return [4096, 2880]
