import math

import torch
import torch.nn as nn


class Model(nn.Module):
    """Front end of a speech recogniser as matrix products, float32: pre-emphasis, overlapping frames as a strided view,
    a product with the windowed cosine and sine table, power, the mel filters, logarithm cut at eight below the clip's
    largest value, mean and variance normalisation per clip and band, and a linear map to the model's width."""

    def __init__(self, rate, frame, hop, bands, dim, emphasis):
        super().__init__()
        self.frame, self.hop, self.emphasis = frame, hop, emphasis
        bins = frame // 2 + 1
        n = torch.arange(frame)
        angle = 2 * math.pi * torch.outer(n, torch.arange(bins)).remainder(frame).float() / frame
        window = 0.5 - 0.5 * torch.cos(2 * math.pi * n.float() / frame)
        self.register_buffer("table", window[:, None] * torch.cat((angle.cos(), -angle.sin()), dim=1))

        top = 2595 * math.log10(1 + rate / 2 / 700)
        edge = 700 * (10 ** (torch.linspace(0, top, bands + 2) / 2595) - 1)
        hertz = torch.linspace(0, rate / 2, bins)[:, None]
        rising = (hertz - edge[:-2]) / (edge[1:-1] - edge[:-2])
        falling = (edge[2:] - hertz) / (edge[2:] - edge[1:-1])
        self.register_buffer("mel", torch.minimum(rising, falling).clamp_min(0))
        self.out = nn.Linear(bands, dim)

    def forward(self, audio):
        x = torch.cat((audio[:, :1], audio[:, 1:] - self.emphasis * audio[:, :-1]), dim=1)
        spectrum = x.unfold(1, self.frame, self.hop) @ self.table
        real, imag = spectrum.chunk(2, dim=-1)
        mel = (real.square() + imag.square()) @ self.mel
        log = mel.clamp_min(1e-10).log()
        log = torch.maximum(log, log.amax(dim=(1, 2), keepdim=True) - 8.0)
        centred = log - log.mean(dim=1, keepdim=True)
        normed = centred * torch.rsqrt(centred.square().mean(dim=1, keepdim=True) + 1e-5)
        return self.out(normed)


BATCH, RATE, SECONDS, FRAME, HOP, BANDS, DIM = 8, 16000, 5, 400, 160, 64, 257


def get_inputs():
    return [0.1 * torch.randn(BATCH, RATE * SECONDS)]


def get_init_inputs():
    return [RATE, FRAME, HOP, BANDS, DIM, 0.97]
