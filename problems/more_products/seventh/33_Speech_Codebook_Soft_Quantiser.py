import torch
import torch.nn as nn


class Model(nn.Module):
    """wav2vec 2.0 heads: normed features projected to the encoder width, grouped codebook softmax, mixed code vectors, target projection, perplexity."""

    def __init__(self, feat, groups, codes, code_dim, hidden, temperature):
        super().__init__()
        self.groups, self.codes, self.temperature = groups, codes, temperature
        self.norm = nn.LayerNorm(feat)
        self.in_proj = nn.Linear(feat, hidden)
        self.logits = nn.Linear(feat, groups * codes)
        self.book = nn.Parameter(torch.randn(groups, codes, code_dim))
        self.out = nn.Linear(groups * code_dim, hidden)
        self.half()

    def forward(self, x):
        b, t, _ = x.shape
        n = self.norm(x)
        z = self.logits(n).float().view(b, t, self.groups, self.codes) / self.temperature
        p = torch.softmax(z, dim=-1)
        q = torch.einsum("btgv,gvd->btgd", p.to(x.dtype), self.book).reshape(b, t, -1)
        avg = p.mean(dim=(0, 1))
        perplexity = torch.exp(-(avg * torch.log(avg + 1e-7)).sum(-1))
        return self.in_proj(n), self.out(q), perplexity


def get_inputs():
    return [torch.randn(16, 499, 512).half()]


def get_init_inputs():
    return [512, 2, 320, 128, 768, 0.25]
