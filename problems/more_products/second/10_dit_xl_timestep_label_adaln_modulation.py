import math
import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, hidden, freq_dim, num_classes):
        super().__init__()
        self.freq_dim = freq_dim
        self.mlp0 = nn.Linear(freq_dim, hidden, dtype=torch.bfloat16)
        self.mlp2 = nn.Linear(hidden, hidden, dtype=torch.bfloat16)
        self.table = nn.Embedding(num_classes + 1, hidden, dtype=torch.bfloat16)
        self.ada = nn.Linear(hidden, 6 * hidden, dtype=torch.bfloat16)

    def forward(self, t, y):
        half = self.freq_dim // 2
        freqs = torch.exp(-math.log(10000.0) * torch.arange(half, device=t.device, dtype=torch.float32) / half)
        args = t[:, None].float() * freqs[None]
        emb = torch.cat([torch.cos(args), torch.sin(args)], dim=-1).to(torch.bfloat16)
        c = self.mlp2(F.silu(self.mlp0(emb))) + self.table(y)
        shift1, scale1, gate1, shift2, scale2, gate2 = self.ada(F.silu(c)).chunk(6, dim=1)
        return torch.stack([shift1, 1 + scale1, gate1, shift2, 1 + scale2, gate2], dim=1)


def get_inputs():
    return [torch.randint(0, 1000, (64,)), torch.randint(0, 1001, (64,))]


def get_init_inputs():
    return [1152, 256, 1000]
