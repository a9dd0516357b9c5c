import math
import torch
import torch.nn as nn

CLIPS, FRAMES, SIDE, PT, PS, DIM = 4, 16, 224, 2, 16, 768


class Model(nn.Module):
    """ViViT tubelet embedding of uint8 video: normalise, cut 2x16x16 tubelets by view/permute, linear layer with int8
    weights and per-channel scales, position embedding, LayerNorm."""

    def __init__(self, frames, side, pt, ps, dim):
        super().__init__()
        k = 3 * pt * ps * ps
        tokens = (frames // pt) * (side // ps) ** 2
        self.norm = nn.LayerNorm(dim)
        self.pos = nn.Parameter(0.02 * torch.randn(1, tokens, dim))
        self.bias = nn.Parameter(0.02 * torch.randn(dim))
        self.register_buffer("mean", torch.tensor([123.7, 116.3, 103.5]))
        self.register_buffer("std", torch.tensor([58.4, 57.1, 57.4]))
        w = torch.randn(dim, k) / math.sqrt(k)
        s = w.abs().amax(1) / 127.0
        self.register_buffer("scale", s)
        self.register_buffer("w8", torch.round(w / s[:, None]).to(torch.int8))
        self.pt, self.ps = pt, ps
        self.to(torch.float16)

    def forward(self, video):
        b, c, t, h, w = video.shape
        x = (video.to(torch.float16) - self.mean[:, None, None, None]) / self.std[:, None, None, None]
        x = x.view(b, c, t // self.pt, self.pt, h // self.ps, self.ps, w // self.ps, self.ps)
        x = x.permute(0, 2, 4, 6, 1, 3, 5, 7).flatten(4).flatten(1, 3)
        y = torch.matmul(x, self.w8.to(torch.float16).t() * self.scale) + self.bias
        return self.norm(y + self.pos)


def get_inputs():
    return [torch.randint(0, 256, (CLIPS, 3, FRAMES, SIDE, SIDE), dtype=torch.uint8)]


def get_init_inputs():
    return [FRAMES, SIDE, PT, PS, DIM]
