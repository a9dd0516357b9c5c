import math
import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH, FREQ, POOLED, DIM, LAYERS = 3, 256, 768, 768, 12


class Model(nn.Module):
    """DiT conditioning for one sampler step: timestep and pooled-text embedders, then the six adaLN vectors of every layer and the final two."""

    def __init__(self, freq, pooled, dim, layers):
        super().__init__()
        self.freq = freq
        self.t1, self.t2 = nn.Linear(freq, dim), nn.Linear(dim, dim)
        self.p1, self.p2 = nn.Linear(pooled, dim), nn.Linear(dim, dim)
        self.w = nn.Parameter(0.5 * torch.randn(layers, dim, 6 * dim) / math.sqrt(dim))
        self.b = nn.Parameter(0.1 * torch.randn(layers, 1, 6 * dim))
        self.final = nn.Linear(dim, 2 * dim)
        self.to(torch.bfloat16)

    def forward(self, t, pooled):
        half = self.freq // 2
        freqs = torch.exp(-math.log(10000.0) * torch.arange(half, dtype=torch.float32, device=t.device) / half)
        args = t[:, None].float() * freqs
        emb = torch.cat([torch.cos(args), torch.sin(args)], dim=-1).to(pooled.dtype)
        c = self.t2(F.silu(self.t1(emb))) + self.p2(F.silu(self.p1(pooled)))
        c = F.silu(c)
        mod = torch.baddbmm(self.b, c.expand(self.w.shape[0], -1, -1), self.w)
        sh1, sc1, g1, sh2, sc2, g2 = mod.chunk(6, dim=-1)
        shift = torch.stack([sh1, sh2])
        scale = 1.0 + torch.stack([sc1, sc2])
        gate = torch.tanh(torch.stack([g1, g2]))
        return shift, scale, gate, self.final(c)


def get_inputs():
    return [1000.0 * torch.rand(BATCH), torch.randn(BATCH, POOLED, dtype=torch.bfloat16)]


def get_init_inputs():
    return [FREQ, POOLED, DIM, LAYERS]
