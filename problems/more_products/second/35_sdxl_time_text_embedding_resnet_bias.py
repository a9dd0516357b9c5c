import math
import torch
import torch.nn as nn
import torch.nn.functional as F


def sinusoid(t, dim):
    freqs = torch.exp(-math.log(10000.0) * torch.arange(dim // 2, device=t.device).float() / (dim // 2))
    a = t.float()[:, None] * freqs[None]
    return torch.cat([a.cos(), a.sin()], dim=-1).half()


class Model(nn.Module):
    def __init__(self, ch, emb, text):
        super().__init__()
        self.ch = ch
        self.t0, self.t1 = nn.Linear(ch, emb, dtype=torch.float16), nn.Linear(emb, emb, dtype=torch.float16)
        self.a0, self.a1 = nn.Linear(text + 6 * 256, emb, dtype=torch.float16), nn.Linear(emb, emb, dtype=torch.float16)
        self.time_emb_proj = nn.Linear(emb, ch, dtype=torch.float16)
        self.norm2 = nn.GroupNorm(32, ch, dtype=torch.float16)

    def forward(self, timestep, text_embeds, time_ids, hidden):
        emb = self.t1(F.silu(self.t0(sinusoid(timestep, self.ch))))
        ids = sinusoid(time_ids.flatten(), 256).reshape(text_embeds.shape[0], -1)
        aug = self.a1(F.silu(self.a0(torch.cat([text_embeds, ids], dim=-1))))
        temb = self.time_emb_proj(F.silu(emb + aug))
        return F.silu(self.norm2(hidden + temb[:, :, None, None]))


def get_inputs():
    return [
        torch.randint(0, 1000, (2,)),
        torch.randn(2, 1280, dtype=torch.float16),
        torch.randint(0, 1024, (2, 6)),
        torch.randn(2, 320, 64, 64, dtype=torch.float16),
    ]


def get_init_inputs():
    return [320, 1280, 1280]
