import math
import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH, H_MODES, W_MODES, BLOCKS, BLOCK_DIM = 2, 90, 91, 8, 96


class Model(nn.Module):
    """FourCastNet AFNO mixing in the frequency domain: two complex block-diagonal layers with ReLU, soft threshold, complex residual."""

    def __init__(self, blocks, block_dim, threshold):
        super().__init__()
        self.blocks, self.threshold = blocks, threshold
        self.w1 = nn.Parameter(torch.randn(2, blocks, block_dim, block_dim) / math.sqrt(2 * block_dim))
        self.b1 = nn.Parameter(0.1 * torch.randn(2, blocks, block_dim))
        self.w2 = nn.Parameter(torch.randn(2, blocks, block_dim, block_dim) / math.sqrt(2 * block_dim))
        self.b2 = nn.Parameter(0.1 * torch.randn(2, blocks, block_dim))

    def complex_layer(self, re, im, w, b):
        out_re = torch.einsum("...bi,bio->...bo", re, w[0]) - torch.einsum("...bi,bio->...bo", im, w[1]) + b[0]
        out_im = torch.einsum("...bi,bio->...bo", im, w[0]) + torch.einsum("...bi,bio->...bo", re, w[1]) + b[1]
        return out_re, out_im

    def forward(self, spec):
        x = spec.view(*spec.shape[:-2], self.blocks, -1, 2)
        re, im = self.complex_layer(x[..., 0], x[..., 1], self.w1, self.b1)
        re, im = self.complex_layer(F.relu(re), F.relu(im), self.w2, self.b2)
        y = F.softshrink(torch.stack([re, im], dim=-1), lambd=self.threshold)
        return (x + y).view(spec.shape)


def get_inputs():
    return [torch.randn(BATCH, H_MODES, W_MODES, BLOCKS * BLOCK_DIM, 2)]


def get_init_inputs():
    return [BLOCKS, BLOCK_DIM, 0.01]
