import math
import torch
import torch.nn as nn

BATCH, SEQ, DIM, HEADS, HEAD_DIM = 3, 600, 2048, 16, 256


class Model(nn.Module):
    """Hand-written backward of Qwen3-Next's gated attention output, y = (ctx * sigmoid(x Wg)) Wo, ctx laid out by head."""

    def __init__(self, dim, inner):
        super().__init__()
        self.w_g = nn.Parameter(torch.randn(inner, dim) / math.sqrt(dim))
        self.w_o = nn.Parameter(torch.randn(dim, inner) / math.sqrt(inner))
        self.to(torch.bfloat16)

    def forward(self, x, ctx, dy):
        b, h, s, hd = ctx.shape
        x2 = x.reshape(b * s, -1)
        g2 = dy.reshape(b * s, -1)
        c = ctx.transpose(1, 2).reshape(b * s, h * hd)
        gate = torch.sigmoid((x2 @ self.w_g.t()).float())
        o = (c.float() * gate).to(x.dtype)
        d_wo = g2.t() @ o
        d_o = (g2 @ self.w_o).float()
        d_ctx = (d_o * gate).to(x.dtype).view(b, s, h, hd).transpose(1, 2).contiguous()
        d_gate = (d_o * c.float() * gate * (1.0 - gate)).to(x.dtype)
        d_wg = d_gate.t() @ x2
        d_x = (d_gate @ self.w_g).view(x.shape)
        return d_x, d_ctx, d_wg, d_wo


def get_inputs():
    return [
        torch.randn(BATCH, SEQ, DIM, dtype=torch.bfloat16),
        torch.randn(BATCH, HEADS, SEQ, HEAD_DIM, dtype=torch.bfloat16),
        torch.randn(BATCH, SEQ, DIM, dtype=torch.bfloat16),
    ]


def get_init_inputs():
    return [DIM, HEADS * HEAD_DIM]
