import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH, SIZE, PATCH, HIDDEN = 32, 224, 14, 1024


class Model(nn.Module):
    """CLIP ViT-L/14 stem: pixel normalisation, non-overlapping patches gathered by reshape and permute,
    linear projection of 588 values, class token, 257 learned positions, pre-LayerNorm."""

    def __init__(self, size: int, patch: int, hidden: int):
        super().__init__()
        kw = dict(dtype=torch.float16)
        self.patch = patch
        n = (size // patch) ** 2
        self.proj = nn.Parameter(torch.randn(hidden, 3 * patch * patch, **kw) * (3 * patch * patch) ** -0.5)
        self.cls = nn.Parameter(torch.randn(hidden, **kw))
        self.pos = nn.Parameter(0.2 * torch.randn(n + 1, hidden, **kw))
        self.pre_ln = nn.LayerNorm(hidden, **kw)
        self.register_buffer("mean", torch.tensor([0.481, 0.458, 0.408]).half().view(3, 1, 1))
        self.register_buffer("std", torch.tensor([0.269, 0.261, 0.276]).half().view(3, 1, 1))

    def forward(self, img):
        x = (img - self.mean) / self.std
        b, c, hh, ww = x.shape
        p = self.patch
        x = x.view(b, c, hh // p, p, ww // p, p).permute(0, 2, 4, 1, 3, 5)
        x = x.reshape(b, (hh // p) * (ww // p), c * p * p)
        x = F.linear(x, self.proj)
        x = torch.cat((self.cls.expand(b, 1, -1), x), dim=1) + self.pos
        return self.pre_ln(x)


def get_inputs():
    return [torch.rand(BATCH, 3, SIZE, SIZE).half()]


def get_init_inputs():
    return [SIZE, PATCH, HIDDEN]
