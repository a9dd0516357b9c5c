import torch
import torch.nn as nn


class Model(nn.Module):
    """Backward of the attention output projection: per-head context gradient, weight and bias gradients, and each row's dot of context with its gradient."""

    def __init__(self):
        super().__init__()

    def forward(self, dy, ctx, w):
        b, h, t, d = ctx.shape
        flat = dy.reshape(b * t, -1)
        merged = ctx.permute(0, 2, 1, 3).reshape(b * t, h * d)
        dw = flat.t() @ merged
        db = flat.float().sum(0)
        dctx = (flat @ w).view(b, t, h, d).transpose(1, 2).contiguous()
        delta = (dctx.float() * ctx.float()).sum(-1)
        return dctx, dw, db, delta


B, H, T, D, OUT = 4, 20, 640, 128, 2560


def get_inputs():
    bf = torch.bfloat16
    return [
        (0.1 * torch.randn(B, T, OUT)).to(bf),
        (0.5 * torch.randn(B, H, T, D)).to(bf),
        (torch.randn(OUT, H * D) / (H * D) ** 0.5).to(bf),
    ]


def get_init_inputs():
    return []
