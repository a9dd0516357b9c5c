import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, patch, dim, tokens):
        super().__init__()
        self.p = patch
        self.proj = nn.Linear(3 * patch * patch, dim, dtype=torch.float16)
        self.cls = nn.Parameter((0.02 * torch.randn(1, 1, dim)).half())
        self.pos = nn.Parameter((0.1 * torch.randn(1, tokens + 1, dim)).half())

    def forward(self, img):
        b, c, h, w = img.shape
        p = self.p
        x = img.view(b, c, h // p, p, w // p, p).permute(0, 2, 4, 1, 3, 5)
        x = self.proj(x.reshape(b, -1, c * p * p))
        x = torch.cat((self.cls.expand(b, -1, -1), x), dim=1)
        return x + self.pos


def get_inputs():
    return [torch.randn(16, 3, 384, 384, dtype=torch.float16)]


def get_init_inputs():
    return [16, 1024, 576]
