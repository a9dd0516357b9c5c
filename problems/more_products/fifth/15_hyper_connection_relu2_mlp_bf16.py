import math
import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH, SEQ, STREAMS, DIM, FFN = 2, 1024, 4, 1280, 5120


class Model(nn.Module):
    """Dynamic hyper-connections round a squared-ReLU MLP: input-dependent mixing of four residual streams, MLP, weighted write-back."""

    def __init__(self, streams, dim, ffn):
        super().__init__()
        self.dim = dim
        self.norm = nn.Parameter(1.0 + 0.1 * torch.randn(dim))
        self.dyn_alpha = nn.Parameter(torch.randn(dim, streams + 1) / math.sqrt(dim))
        self.dyn_beta = nn.Parameter(torch.randn(dim) / math.sqrt(dim))
        first = torch.zeros(streams, 1)
        first[1] = 1.0
        self.static_alpha = nn.Parameter(torch.cat([first, torch.eye(streams)], dim=1))
        self.static_beta = nn.Parameter(torch.ones(streams))
        self.scale = nn.Parameter(torch.tensor([0.1, 0.1]))
        self.mlp_norm = nn.Parameter(1.0 + 0.1 * torch.randn(dim))
        self.w1 = nn.Parameter(torch.randn(dim, ffn) / math.sqrt(dim))
        self.w2 = nn.Parameter(torch.randn(ffn, dim) / math.sqrt(ffn))
        self.to(torch.bfloat16)

    def forward(self, h):
        n = F.rms_norm(h, (self.dim,), self.norm, 1e-6)
        alpha = torch.tanh(n @ self.dyn_alpha) * self.scale[0] + self.static_alpha
        beta = torch.tanh(n @ self.dyn_beta) * self.scale[1] + self.static_beta
        mix = torch.einsum("bsnm,bsnd->bsmd", alpha, h)
        x = F.rms_norm(mix[:, :, 0], (self.dim,), self.mlp_norm, 1e-6)
        y = torch.square(F.relu(x @ self.w1)) @ self.w2
        return mix[:, :, 1:] + beta[..., None] * y[:, :, None]


def get_inputs():
    base = torch.randn(BATCH, SEQ, 1, DIM)
    return [(base + 0.5 * torch.randn(BATCH, SEQ, STREAMS, DIM)).to(torch.bfloat16)]


def get_init_inputs():
    return [STREAMS, DIM, FFN]
