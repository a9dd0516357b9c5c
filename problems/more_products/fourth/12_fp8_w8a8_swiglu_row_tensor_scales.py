import math
import torch
import torch.nn as nn
import torch.nn.functional as F

TOKENS, DIM, FFN = 256, 3072, 8192
FP8 = torch.float8_e4m3fn


class Model(nn.Module):
    """SwiGLU with float8 weights: the joint gate/up weight has per-row scales and activations quantised per token,
    the down weight has one per-tensor scale and a static activation scale. Products in bf16 on the fp8 values."""

    def __init__(self, dim, ffn, act_scale):
        super().__init__()
        w = torch.randn(2 * ffn, dim) / math.sqrt(dim)
        s = w.abs().amax(dim=1, keepdim=True) / 448.0
        self.register_buffer("w13", (w / s).to(FP8))
        self.register_buffer("s13", s.t().contiguous())
        w = torch.randn(dim, ffn) / math.sqrt(ffn)
        s = w.abs().max() / 448.0
        self.register_buffer("w2", (w / s).to(FP8))
        self.register_buffer("s2", s)
        self.act_scale = act_scale

    def forward(self, x):
        xf = x.float()
        sx = xf.abs().amax(dim=-1, keepdim=True).clamp(min=1e-6) / 448.0
        xq = (xf / sx).to(FP8)
        h = (xq.to(torch.bfloat16) @ self.w13.to(torch.bfloat16).t()).float() * sx * self.s13
        gate, up = h.chunk(2, dim=-1)
        a = F.silu(gate) * up
        aq = (a / self.act_scale).clamp(-448.0, 448.0).to(FP8)
        y = (aq.to(torch.bfloat16) @ self.w2.to(torch.bfloat16).t()).float() * (self.act_scale * self.s2)
        return y.to(x.dtype)


def get_inputs():
    x = torch.randn(TOKENS, DIM) * (0.25 + 2.0 * torch.rand(TOKENS, 1))
    return [x.to(torch.bfloat16)]


def get_init_inputs():
    return [DIM, FFN, 0.1]
