import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Correlation volume of the optical-flow network RAFT: dot products of every feature of the first image with every
    feature of the second (368 x 496 crops at an eighth, half-precision features, float32 volume), scaled, and averaged
    over the second image's grid into a pyramid of four levels."""

    def __init__(self, levels):
        super().__init__()
        self.levels = levels

    def forward(self, first, second):
        batch, dim, h, w = first.shape
        a = first.float().flatten(2)
        b = second.float().flatten(2)
        corr = a.transpose(1, 2) @ b / dim ** 0.5
        corr = corr.reshape(batch * h * w, 1, h, w)
        pyramid = [corr]
        for _ in range(self.levels - 1):
            corr = F.avg_pool2d(corr, 2, stride=2)
            pyramid.append(corr)
        return tuple(pyramid)


BATCH, DIM, H, W = 2, 256, 46, 62


def get_inputs():
    return [torch.randn(BATCH, DIM, H, W).half(), torch.randn(BATCH, DIM, H, W).half()]


def get_init_inputs():
    return [4]
