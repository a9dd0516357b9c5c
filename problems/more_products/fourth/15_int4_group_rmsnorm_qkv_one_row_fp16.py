import math
import torch
import torch.nn as nn

DIM, Q_OUT, KV_OUT, GROUP = 4096, 4096, 1024, 128


class Model(nn.Module):
    """One decoded token: RMSNorm, then a joint QKV layer with 4-bit weights (two per uint8 along the input, low nibble
    first), a scale and a zero point per group of 128 inputs. Returns q, k, v as views of one row."""

    def __init__(self, dim, q_out, kv_out, group):
        super().__init__()
        n = q_out + 2 * kv_out
        self.sizes, self.group = [q_out, kv_out, kv_out], group
        self.norm_w = nn.Parameter(1.0 + 0.1 * torch.randn(dim))
        self.bias = nn.Parameter(0.1 * torch.randn(n))
        self.register_buffer("scale", (0.5 + torch.rand(n, dim // group)) / (4.6 * math.sqrt(dim)))
        self.register_buffer("packed", torch.randint(0, 256, (n, dim // 2), dtype=torch.uint8))
        self.register_buffer("zero", torch.randint(6, 10, (n, dim // group), dtype=torch.uint8))
        self.to(torch.float16)

    def forward(self, x):
        xf = x.float()
        h = xf * torch.rsqrt(xf.square().mean(-1, keepdim=True) + 1e-5)
        h = h.to(x.dtype) * self.norm_w
        n = self.packed.shape[0]
        q = torch.stack((self.packed & 0xF, self.packed >> 4), dim=-1).view(n, -1, self.group)
        w = (q.to(x.dtype) - self.zero.to(x.dtype)[:, :, None]) * self.scale[:, :, None]
        y = torch.addmm(self.bias, h, w.view(n, -1).t())
        return y.split(self.sizes, dim=-1)


def get_inputs():
    return [5.0 * torch.randn(1, DIM, dtype=torch.float16)]


def get_init_inputs():
    return [DIM, Q_OUT, KV_OUT, GROUP]
