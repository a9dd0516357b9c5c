import torch
import torch.nn as nn
import torch.nn.functional as F


class BitLinear(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        codes = torch.randint(0, 3, (4, d_out // 4, d_in))
        packed = codes[0] | codes[1] << 2 | codes[2] << 4 | codes[3] << 6
        self.register_buffer("packed", packed.to(torch.uint8))
        self.register_buffer("scale", torch.tensor(1.2 / d_in ** 0.5))

    def forward(self, x):
        xf = x.float()
        s = 127.0 / xf.abs().amax(dim=-1, keepdim=True).clamp_min(1e-5)
        q = torch.round(xf * s).clamp(-128.0, 127.0)
        parts = [(self.packed >> shift) & 3 for shift in (0, 2, 4, 6)]
        w = torch.cat(parts, dim=0).to(torch.float32) - 1.0
        return (F.linear(q, w) / s * self.scale).to(x.dtype)


class Model(nn.Module):
    """Feed-forward block of BitNet b1.58 2B: pre-norm, ternary gate and up layers with four weights to a byte (blocks of
    output rows) and int8 activations scaled per token, squared-ReLU gating, the sub-layer norm before the ternary down
    layer, residual. A short prompt of 128 rows."""

    def __init__(self, dim, inter):
        super().__init__()
        bf = torch.bfloat16
        self.norm = nn.RMSNorm(dim, eps=1e-5, dtype=bf)
        self.gate = BitLinear(dim, inter)
        self.up = BitLinear(dim, inter)
        self.sub_norm = nn.RMSNorm(inter, eps=1e-5, dtype=bf)
        self.down = BitLinear(inter, dim)

    def forward(self, x):
        n = self.norm(x)
        h = torch.relu(self.gate(n)) ** 2 * self.up(n)
        return x + self.down(self.sub_norm(h))


ROWS, DIM, INTER = 128, 2560, 6912


def get_inputs():
    return [torch.randn(ROWS, DIM).to(torch.bfloat16)]


def get_init_inputs():
    return [DIM, INTER]
