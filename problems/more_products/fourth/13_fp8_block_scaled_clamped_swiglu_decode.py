import math
import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS, DIM, FFN, BLOCK = 16, 2880, 2880, 128
FP8 = torch.float8_e4m3fn


def quantise(w, block):
    n, k = w.shape
    pad = F.pad(w, (0, -k % block, 0, -n % block))
    s = pad.view(-(-n // block), block, -(-k // block), block).abs().amax(dim=(1, 3)) / 448.0
    full = s.repeat_interleave(block, 0)[:n].repeat_interleave(block, 1)[:, :k]
    return (w / full).to(FP8), s


class Model(nn.Module):
    """Decode of 16 rows through a GPT-OSS style MLP (interleaved gate/up, clamped swish with 1.702, up + 1), weights
    in float8 with 128 x 128 block scales; the sizes leave half blocks at the edges."""

    def __init__(self, dim, ffn, block, limit):
        super().__init__()
        self.block, self.limit = block, limit
        q1, s1 = quantise(torch.randn(2 * ffn, dim) / math.sqrt(dim), block)
        q2, s2 = quantise(torch.randn(dim, ffn) / math.sqrt(ffn), block)
        for name, t in (("q1", q1), ("s1", s1), ("q2", q2), ("s2", s2)):
            self.register_buffer(name, t)
        self.b1 = nn.Parameter(0.1 * torch.randn(2 * ffn).to(torch.bfloat16))
        self.b2 = nn.Parameter(0.1 * torch.randn(dim).to(torch.bfloat16))

    def dequant(self, q, s):
        n, k = q.shape
        full = s.repeat_interleave(self.block, 0)[:n].repeat_interleave(self.block, 1)[:, :k]
        return (q.float() * full).to(torch.bfloat16)

    def forward(self, x):
        h = torch.addmm(self.b1, x, self.dequant(self.q1, self.s1).t())
        gate = h[:, 0::2].clamp(max=self.limit)
        up = h[:, 1::2].clamp(-self.limit, self.limit)
        a = gate * torch.sigmoid(1.702 * gate) * (up + 1.0)
        return torch.addmm(self.b2, a, self.dequant(self.q2, self.s2).t())


def get_inputs():
    return [2.0 * torch.randn(ROWS, DIM).to(torch.bfloat16)]


def get_init_inputs():
    return [DIM, FFN, BLOCK, 7.0]
