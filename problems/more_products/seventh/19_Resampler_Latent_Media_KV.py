import torch
import torch.nn as nn


class Model(nn.Module):
    """Perceiver resampler projections: time-embedded media and learned latents normed apart, queries from latents, keys and values from both joined."""

    def __init__(self, dim, latents, heads, head_dim, frames):
        super().__init__()
        self.heads, self.hd = heads, head_dim
        self.latents = nn.Parameter(torch.randn(latents, dim))
        self.times = nn.Parameter(0.3 * torch.randn(frames, 1, dim))
        self.norm_media = nn.LayerNorm(dim)
        self.norm_latents = nn.LayerNorm(dim)
        self.to_q = nn.Linear(dim, heads * head_dim, bias=False)
        self.to_kv = nn.Linear(dim, 2 * heads * head_dim, bias=False)
        self.to(torch.bfloat16)

    def split(self, t):
        return t.unflatten(-1, (self.heads, self.hd)).transpose(1, 2).contiguous()

    def forward(self, media):
        b = media.shape[0]
        m = self.norm_media((media + self.times).flatten(1, 2))
        l = self.norm_latents(self.latents).expand(b, -1, -1)
        q = self.to_q(l) * self.hd ** -0.5
        k, v = self.to_kv(torch.cat((m, l), dim=1)).chunk(2, dim=-1)
        return self.split(q), self.split(k), self.split(v)


def get_inputs():
    return [torch.randn(4, 3, 257, 1024).to(torch.bfloat16)]


def get_init_inputs():
    return [1024, 64, 8, 64, 3]
