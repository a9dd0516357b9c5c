import torch
import torch.nn as nn


class Model(nn.Module):
    """Weight gradient of a linear layer in fine-grained fp8 training: the reduction runs over tokens, so both the output
    gradient and the saved activation are quantised to e4m3 in tiles of 128 tokens per column, multiplied, and added to
    the float32 gradient accumulated so far. Also the bias gradient and the share of saturated codes."""

    def __init__(self, tile):
        super().__init__()
        self.tile = tile

    def quantise(self, t):
        tiles = t.float().unflatten(0, (-1, self.tile))
        scale = tiles.abs().amax(dim=1, keepdim=True).clamp_min(1e-10) / 448.0
        codes = (tiles / scale).clamp(-448.0, 448.0).to(torch.float8_e4m3fn)
        return codes, scale

    def dequantise(self, codes, scale):
        return (codes.float() * scale).flatten(0, 1)

    def forward(self, dy, x, main_grad, bias_grad):
        gq, gs = self.quantise(dy)
        xq, xs = self.quantise(x)
        dw = main_grad + self.dequantise(gq, gs).t() @ self.dequantise(xq, xs)
        db = bias_grad + dy.float().sum(0)
        full = (gq.float().abs() >= 448.0).float().mean()
        return dw, db, full


TOKENS, D_IN, D_OUT = 4096, 2048, 1408


def get_inputs():
    bf = torch.bfloat16
    return [
        (0.01 * torch.randn(TOKENS, D_OUT) * torch.exp(0.5 * torch.randn(TOKENS, 1))).to(bf),
        torch.randn(TOKENS, D_IN).to(bf),
        0.3 * torch.randn(D_OUT, D_IN),
        0.3 * torch.randn(D_OUT),
    ]


def get_init_inputs():
    return [128]
