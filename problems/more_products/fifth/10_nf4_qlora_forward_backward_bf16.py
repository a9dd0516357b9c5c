import math
import torch
import torch.nn as nn

TOKENS, D_IN, D_OUT, RANK = 1024, 4096, 11008, 64
BLOCK, DBLOCK = 64, 256
NF4 = [-1.0, -0.6961928, -0.5250730, -0.3949175, -0.2844414, -0.1847734, -0.0910500, 0.0,
       0.0795803, 0.1609302, 0.2461123, 0.3379152, 0.4407098, 0.5626170, 0.7229568, 1.0]


class Model(nn.Module):
    """QLoRA linear layer: NF4 weight with double-quantised absmax, LoRA branch, forward and hand-written backward (y, dx, dA, dB)."""

    def __init__(self, d_in, d_out, rank):
        super().__init__()
        self.shape = (d_out, d_in)
        code = torch.tensor(NF4)
        w = (torch.randn(d_out * d_in // BLOCK, BLOCK) / math.sqrt(d_in))
        absmax = w.abs().amax(1)
        idx = torch.bucketize(w / absmax[:, None], (code[1:] + code[:-1]) / 2).to(torch.uint8).view(-1, 2)
        offset = absmax.mean()
        centred = (absmax - offset).view(-1, DBLOCK)
        scale = centred.abs().amax(1) / 127.0
        self.register_buffer("code", code)
        self.register_buffer("packed", idx[:, 0] * 16 + idx[:, 1])
        self.register_buffer("absmax_q", torch.round(centred / scale[:, None]).to(torch.int8))
        self.register_buffer("absmax_scale", scale)
        self.register_buffer("offset", offset)
        self.lora_a = nn.Parameter((torch.randn(rank, d_in) / math.sqrt(d_in)).to(torch.bfloat16))
        self.lora_b = nn.Parameter((0.3 * torch.randn(d_out, rank) / math.sqrt(rank)).to(torch.bfloat16))
        self.scaling = 16.0 / rank

    def dequantise(self):
        absmax = self.absmax_q.float() * self.absmax_scale[:, None] + self.offset
        idx = torch.stack([self.packed >> 4, self.packed & 15], dim=-1).view(-1, BLOCK)
        w = self.code[idx.int()] * absmax.view(-1, 1)
        return w.view(self.shape).to(torch.bfloat16)

    def forward(self, x, dy):
        w = self.dequantise()
        xa = x @ self.lora_a.t()
        y = torch.addmm(x @ w.t(), xa, self.lora_b.t(), alpha=self.scaling)
        gb = dy @ self.lora_b
        dx = torch.addmm(dy @ w, gb, self.lora_a, alpha=self.scaling)
        d_a = self.scaling * (gb.t() @ x)
        d_b = self.scaling * (dy.t() @ xa)
        return y, dx, d_a, d_b


def get_inputs():
    return [
        torch.randn(TOKENS, D_IN, dtype=torch.bfloat16),
        0.1 * torch.randn(TOKENS, D_OUT, dtype=torch.bfloat16),
    ]


def get_init_inputs():
    return [D_IN, D_OUT, RANK]
