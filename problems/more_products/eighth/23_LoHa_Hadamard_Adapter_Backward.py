import torch
import torch.nn as nn


class Model(nn.Module):
    """LoHa adapter on the text key/value projections of a diffusion UNet, W + s * (B1 A1) * (B2 A2) with rank 16:
    forward for 77 text tokens per image, and backward to the text states and all four factors. The gradients of key
    and value halves arrive side by side; this layer owns the value half."""

    def __init__(self, d_in, d_out, rank, alpha):
        super().__init__()
        bf = torch.bfloat16
        self.scale = alpha / rank
        self.weight = nn.Parameter((torch.randn(d_out, d_in) / d_in ** 0.5).to(bf))
        self.b1 = nn.Parameter((0.3 * torch.randn(d_out, rank)).to(bf))
        self.a1 = nn.Parameter((0.3 * torch.randn(rank, d_in)).to(bf))
        self.b2 = nn.Parameter((0.05 * torch.randn(d_out, rank)).to(bf))
        self.a2 = nn.Parameter((0.3 * torch.randn(rank, d_in)).to(bf))

    def forward(self, text, d_kv):
        x = text.reshape(-1, text.shape[-1])
        p1 = self.b1 @ self.a1
        p2 = self.b2 @ self.a2
        w = self.weight + self.scale * (p1 * p2)
        y = text @ w.t()

        dy = d_kv[..., d_kv.shape[-1] // 2 :]
        dx = dy @ w
        g = (dy.reshape(-1, dy.shape[-1]).t() @ x) * self.scale
        g1 = g * p2
        g2 = g * p1
        return y, dx, g1 @ self.a1.t(), self.b1.t() @ g1, g2 @ self.a2.t(), self.b2.t() @ g2


BATCH, TOKENS, D_IN, D_OUT = 16, 77, 2048, 1280


def get_inputs():
    bf = torch.bfloat16
    return [
        torch.randn(BATCH, TOKENS, D_IN).to(bf),
        (0.05 * torch.randn(BATCH, TOKENS, 2 * D_OUT)).to(bf),
    ]


def get_init_inputs():
    return [D_IN, D_OUT, 16, 8.0]
