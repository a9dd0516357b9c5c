import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Swin patch merging on an odd grid: pad, gather the 2x2 neighbours, LayerNorm, reduction 4C -> 2C."""

    def __init__(self, h, w, c):
        super().__init__()
        self.h, self.w, self.c = h, w, c
        self.norm = nn.LayerNorm(4 * c).to(torch.bfloat16)
        with torch.no_grad():
            self.norm.weight.add_((0.1 * torch.randn(4 * c)).to(torch.bfloat16))
            self.norm.bias.add_((0.1 * torch.randn(4 * c)).to(torch.bfloat16))
        self.reduction = nn.Linear(4 * c, 2 * c, bias=False).to(torch.bfloat16)

    def forward(self, x):
        B = x.shape[0]
        x = x.view(B, self.h, self.w, self.c)
        x = F.pad(x, (0, 0, 0, self.w % 2, 0, self.h % 2))
        x = torch.cat([x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]], dim=-1)
        y = self.reduction(self.norm(x))
        return y.flatten(1, 2)


def get_inputs():
    return [torch.randn(16, 55 * 55, 192).to(torch.bfloat16)]


def get_init_inputs():
    return [55, 55, 192]
