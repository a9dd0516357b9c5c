import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Vocos-style vocoder head: final LayerNorm and a linear layer give log magnitude and phase of 513 bins, the inverse
    Fourier transform is a product with cosine and sine bases, frames are windowed, overlap-added with hop 256, trimmed
    and divided by the window envelope. Returns the waveform."""

    def __init__(self, dim, n_fft, hop):
        super().__init__()
        self.n_fft, self.hop = n_fft, hop
        bins = n_fft // 2 + 1
        self.norm = nn.LayerNorm(dim, eps=1e-6)
        self.out = nn.Linear(dim, 2 * bins)
        angle = 2 * math.pi * torch.arange(bins, dtype=torch.float64)[:, None] * torch.arange(n_fft) / n_fft
        twice = torch.full((bins, 1), 2.0, dtype=torch.float64)
        twice[0] = twice[-1] = 1.0
        self.register_buffer("cos", (twice * angle.cos() / n_fft).float())
        self.register_buffer("sin", (-twice * angle.sin() / n_fft).float())
        self.register_buffer("window", torch.hann_window(n_fft))

    def overlap(self, frames):
        parts = self.n_fft // self.hop
        batch, count, _ = frames.shape
        pieces = frames.reshape(batch, count, parts, self.hop)
        total = sum(F.pad(pieces[:, :, i], (0, 0, i, parts - 1 - i)) for i in range(parts))
        cut = (self.n_fft - self.hop) // 2
        return total.reshape(batch, -1)[:, cut:-cut]

    def forward(self, x):
        mag, phase = self.out(self.norm(x)).chunk(2, dim=-1)
        mag = torch.exp(mag).clamp(max=100.0)
        frames = (mag * torch.cos(phase)) @ self.cos + (mag * torch.sin(phase)) @ self.sin
        wave = self.overlap(frames * self.window)
        envelope = self.overlap((self.window ** 2).expand(1, x.shape[1], -1))
        return wave / envelope


BATCH, FRAMES, DIM = 8, 375, 512


def get_inputs():
    return [torch.randn(BATCH, FRAMES, DIM)]


def get_init_inputs():
    return [DIM, 1024, 256]
