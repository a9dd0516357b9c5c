import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Patch merging between two stages of a window transformer for maps with odd sides, bfloat16: padding to even
    sides, four interleaved slices joined, layer norm, a linear map to twice the channels, then a squeeze-and-excitation
    gate from the mean over each map."""

    def __init__(self, dim, squeeze):
        super().__init__()
        self.norm = nn.LayerNorm(4 * dim, dtype=torch.bfloat16)
        self.reduce = nn.Linear(4 * dim, 2 * dim, bias=False, dtype=torch.bfloat16)
        self.down = nn.Linear(2 * dim, squeeze, dtype=torch.bfloat16)
        self.up = nn.Linear(squeeze, 2 * dim, dtype=torch.bfloat16)

    def forward(self, x):
        height, width = x.shape[1:3]
        x = F.pad(x, (0, 0, 0, width % 2, 0, height % 2))
        x = torch.cat((x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]), dim=-1)
        y = self.reduce(self.norm(x))
        mean = y.float().mean(dim=(1, 2)).to(y.dtype)
        gate = torch.sigmoid(self.up(F.relu(self.down(mean))))
        return y * gate[:, None, None]


BATCH, HEIGHT, WIDTH, DIM, SQUEEZE = 6, 47, 61, 128, 24


def get_inputs():
    return [torch.randn(BATCH, HEIGHT, WIDTH, DIM).to(torch.bfloat16)]


def get_init_inputs():
    return [DIM, SQUEEZE]
