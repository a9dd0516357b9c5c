import math
import torch
import torch.nn as nn

BATCH, SEQ, D_IN, D_OUT, RANK, ALPHA = 3, 700, 2880, 4096, 32, 64.0


class Model(nn.Module):
    """DoRA linear layer, forward and hand-written backward (norm detached as in peft): y, dx, dA, dB, dm."""

    def __init__(self, d_in, d_out, rank, alpha):
        super().__init__()
        w = torch.randn(d_out, d_in) / math.sqrt(d_in)
        self.weight = nn.Parameter(w)
        self.lora_a = nn.Parameter(torch.randn(rank, d_in) / math.sqrt(d_in))
        self.lora_b = nn.Parameter(0.2 * torch.randn(d_out, rank) / math.sqrt(rank))
        self.magnitude = nn.Parameter(w.norm(dim=1) * (1.0 + 0.05 * torch.randn(d_out)))
        self.scaling = alpha / rank
        self.to(torch.bfloat16)

    def forward(self, x, dy):
        s = self.scaling
        x2 = x.reshape(-1, x.shape[-1])
        g = dy.reshape(-1, dy.shape[-1])
        merged = self.weight + s * (self.lora_b @ self.lora_a)
        norm = torch.linalg.vector_norm(merged.float(), dim=1)
        unit = self.magnitude.float() / norm
        xa = x2 @ self.lora_a.t()
        raw = x2 @ self.weight.t() + s * (xa @ self.lora_b.t())
        y = raw * unit.to(x.dtype)
        d_m = (g.float() * raw.float()).sum(0) / norm
        gu = g * unit.to(g.dtype)
        gb = gu @ self.lora_b
        dx = gu @ self.weight + s * (gb @ self.lora_a)
        d_a = s * (gb.t() @ x2)
        d_b = s * (gu.t() @ xa)
        return y.view(dy.shape), dx.view(x.shape), d_a, d_b, d_m


def get_inputs():
    return [
        torch.randn(BATCH, SEQ, D_IN, dtype=torch.bfloat16),
        0.1 * torch.randn(BATCH, SEQ, D_OUT, dtype=torch.bfloat16),
    ]


def get_init_inputs():
    return [D_IN, D_OUT, RANK, ALPHA]
