import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """GPT-NeoX block after attention: merge heads, output projection, GELU MLP on its own LayerNorm, both added to the residual."""

    def __init__(self, dim, heads, ffn):
        super().__init__()
        self.ln_mlp = nn.LayerNorm(dim, eps=1e-5)
        self.dense = nn.Linear(dim, dim)
        self.up = nn.Linear(dim, ffn)
        self.down = nn.Linear(ffn, dim)
        self.to(torch.bfloat16)

    def forward(self, x, ctx):
        b, h, t, d = ctx.shape
        attn = self.dense(ctx.transpose(1, 2).reshape(b, t, h * d))
        mlp = self.down(F.gelu(self.up(self.ln_mlp(x))))
        return mlp + attn + x


B, T, DIM, HEADS, FFN = 2, 768, 2048, 16, 8192


def get_inputs():
    return [
        torch.randn(B, T, DIM).to(torch.bfloat16),
        (0.5 * torch.randn(B, HEADS, T, DIM // HEADS)).to(torch.bfloat16),
    ]


def get_init_inputs():
    return [DIM, HEADS, FFN]
