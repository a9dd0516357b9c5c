import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, freq_dim, time_dim, channels, groups):
        super().__init__()
        half = freq_dim // 2
        self.register_buffer("freqs", torch.exp(-9.210340371976184 * torch.arange(half).float() / half))
        self.fc1 = nn.Linear(freq_dim, time_dim)
        self.fc2 = nn.Linear(time_dim, time_dim)
        self.out = nn.Linear(time_dim, 2 * channels)
        self.groups = groups

    def forward(self, t, x):
        ang = t[:, None] * self.freqs
        emb = torch.cat((torch.cos(ang), torch.sin(ang)), dim=-1)
        emb = self.fc2(F.silu(self.fc1(emb)))
        scale, shift = self.out(F.silu(emb))[:, :, None, None].chunk(2, dim=1)
        h = F.group_norm(x, self.groups, eps=1e-5)
        return F.silu(h * (1 + scale) + shift), emb


def get_inputs():
    return [torch.rand(8) * 1000.0, torch.randn(8, 640, 32, 32)]


def get_init_inputs():
    return [320, 1280, 640, 32]
