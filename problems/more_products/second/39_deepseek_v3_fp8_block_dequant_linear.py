import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, in_dim, out_dim, block):
        super().__init__()
        self.block = block
        w = torch.randn(out_dim, in_dim) * 100.0
        self.register_buffer("weight", w.clamp(-448, 448).to(torch.float8_e4m3fn))
        scale = (0.5 + torch.rand(out_dim // block, in_dim // block)) * (0.01 * in_dim ** -0.5)
        self.register_buffer("weight_scale_inv", scale)

    def forward(self, x, residual):
        s = self.weight_scale_inv.repeat_interleave(self.block, 0).repeat_interleave(self.block, 1)
        w = (self.weight.float() * s).to(x.dtype)
        gate, up = F.linear(x, w).chunk(2, dim=-1)
        return F.silu(gate) * up + residual


def get_inputs():
    return [
        torch.randn(32, 7168, dtype=torch.bfloat16),
        torch.randn(32, 2048, dtype=torch.bfloat16),
    ]


def get_init_inputs():
    return [7168, 4096, 128]
