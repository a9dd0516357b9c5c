import math
import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH, TOKENS, GROUPS, WIDTH, SQUEEZE = 48, 196, 8, 112, 224


class Model(nn.Module):
    """RegNetY-like block on channels-last tokens: block-diagonal linear (8 blocks of 112), folded batch norm, ReLU,
    squeeze-and-excite channel gate, pointwise projection, residual, squared ReLU."""

    def __init__(self, groups, width, squeeze):
        super().__init__()
        c = groups * width
        self.blocks = nn.Parameter(torch.randn(groups, width, width) / math.sqrt(width))
        self.gain = nn.Parameter(1.0 + 0.1 * torch.randn(c))
        self.shift = nn.Parameter(0.1 * torch.randn(c))
        self.down = nn.Linear(c, squeeze)
        self.up = nn.Linear(squeeze, c)
        self.proj = nn.Linear(c, c)
        self.groups, self.width = groups, width
        self.to(torch.float16)

    def forward(self, x):
        b, n, c = x.shape
        h = torch.einsum("bngi,gio->bngo", x.view(b, n, self.groups, self.width), self.blocks).reshape(b, n, c)
        h = F.relu(h * self.gain + self.shift)
        gate = torch.sigmoid(self.up(F.relu(self.down(h.mean(dim=1)))))
        y = x + self.proj(h * gate[:, None, :])
        return F.relu(y).square()


def get_inputs():
    return [torch.randn(BATCH, TOKENS, GROUPS * WIDTH, dtype=torch.float16)]


def get_init_inputs():
    return [GROUPS, WIDTH, SQUEEZE]
