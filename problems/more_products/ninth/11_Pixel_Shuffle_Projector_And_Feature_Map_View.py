import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Projector between a vision transformer and a language model (InternVL): the class token is cut off, each 2 by 2
    square of patch tokens is joined into one of four times the width, layer norm, linear, GELU, linear. Also returns
    the patch tokens as a channels-first feature map for a dense head, which is a view of the input."""

    def __init__(self, dim, out, side):
        super().__init__()
        self.side = side
        self.norm = nn.LayerNorm(4 * dim, dtype=torch.bfloat16)
        self.first = nn.Linear(4 * dim, out, dtype=torch.bfloat16)
        self.second = nn.Linear(out, out, dtype=torch.bfloat16)

    def forward(self, tokens):
        patches = tokens[:, 1:]
        batch, _, c = patches.shape
        half = self.side // 2
        x = patches.reshape(batch, half, 2, half, 2, c).permute(0, 1, 3, 2, 4, 5)
        x = self.norm(x.reshape(batch, half * half, 4 * c))
        x = self.second(F.gelu(self.first(x)))
        return x, patches.transpose(1, 2).unflatten(2, (self.side, self.side))


BATCH, SIDE, DIM, OUT = 4, 32, 1024, 896


def get_inputs():
    return [torch.randn(BATCH, 1 + SIDE * SIDE, DIM).to(torch.bfloat16)]


def get_init_inputs():
    return [DIM, OUT, SIDE]
