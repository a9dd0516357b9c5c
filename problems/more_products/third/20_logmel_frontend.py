import math
import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH, SAMPLES = 4, 480000


class Model(nn.Module):
    """Whisper-like log-mel front end with the DFT as a matrix product (400 samples, 201 bins), mel filters,
    clipped log scale per utterance, then 4 stacked frames projected and layer-normed."""

    def __init__(self, n_fft: int, hop: int, mels: int, stack: int, out: int):
        super().__init__()
        self.n_fft, self.hop, self.stack = n_fft, hop, stack
        bins = n_fft // 2 + 1
        t = torch.arange(n_fft, dtype=torch.float64)
        k = torch.arange(bins, dtype=torch.float64)
        ang = 2 * math.pi * torch.outer(t, k) / n_fft
        self.register_buffer("basis", torch.cat((ang.cos(), -ang.sin()), dim=1).float())
        self.register_buffer("window", torch.hann_window(n_fft))
        # triangular filters on the mel scale
        hz = torch.linspace(0, 8000, bins)
        edges = 700 * (10 ** (torch.linspace(0, 2595 * math.log10(1 + 8000 / 700), mels + 2) / 2595) - 1)
        up = (hz[:, None] - edges[None, :-2]) / (edges[1:-1] - edges[:-2])
        down = (edges[None, 2:] - hz[:, None]) / (edges[2:] - edges[1:-1])
        self.register_buffer("mel", torch.minimum(up, down).clamp(min=0))
        self.proj = nn.Linear(mels * stack, out)
        self.ln = nn.LayerNorm(out)

    def forward(self, audio):
        half = self.n_fft // 2
        x = F.pad(audio.unsqueeze(1), (half, half), mode="reflect").squeeze(1)
        frames = x.unfold(-1, self.n_fft, self.hop)[:, :-1] * self.window
        re, im = (frames @ self.basis).chunk(2, dim=-1)
        spec = (re.square() + im.square()) @ self.mel
        logs = torch.log10(spec.clamp(min=1e-10))
        logs = torch.maximum(logs, logs.amax(dim=(1, 2), keepdim=True) - 8.0)
        logs = (logs + 4.0) / 4.0
        b, n, m = logs.shape
        return self.ln(self.proj(logs.reshape(b, n // self.stack, m * self.stack)))


def get_inputs():
    return [0.2 * torch.randn(BATCH, SAMPLES)]


def get_init_inputs():
    return [400, 160, 80, 4, 512]
