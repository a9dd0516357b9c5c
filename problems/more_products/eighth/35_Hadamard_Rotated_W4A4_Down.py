import torch
import torch.nn as nn
import torch.nn.functional as F


def hadamard(n):
    h = torch.ones(1, 1)
    while h.shape[0] < n:
        h = torch.cat((torch.cat((h, h), 1), torch.cat((h, -h), 1)), 0)
    return h


class Model(nn.Module):
    """Down projection of a QuaRot-style 4-bit model (Llama-3.2-3B sizes): the gated activation is rotated by a Hadamard
    matrix of size 8192, done as two products with sizes 64 and 128, quantised per token to signed 4 bits with clipping,
    multiplied with packed 4-bit weights scaled per output channel, and added to the residual in half precision."""

    def __init__(self, inter, dim, outer, clip):
        super().__init__()
        inner = inter // outer
        self.clip = clip
        self.register_buffer("h_outer", (hadamard(outer) / outer ** 0.5).half())
        self.register_buffer("h_inner", (hadamard(inner) / inner ** 0.5).half())
        self.register_buffer("packed", torch.randint(0, 256, (dim, inter // 2), dtype=torch.int64).to(torch.uint8))
        self.register_buffer("scale", (0.5 + torch.rand(dim)) / (4.6 * inter ** 0.5))

    def forward(self, gate, up, residual):
        a = F.silu(gate) * up
        rows = a.shape[0]
        t = a.view(rows, self.h_outer.shape[0], self.h_inner.shape[0])
        t = self.h_outer @ (t @ self.h_inner)
        t = t.reshape(rows, -1).float()
        s = t.abs().amax(dim=-1, keepdim=True).clamp_min(1e-6) * (self.clip / 7.0)
        q = torch.round(t / s).clamp(-8.0, 7.0)
        low = (self.packed & 15).to(torch.int8) - 8
        high = (self.packed >> 4).to(torch.int8) - 8
        w = torch.stack((low, high), dim=-1).flatten(1).float()
        y = (q @ w.t()) * s * self.scale
        return residual + y.to(residual.dtype)


ROWS, INTER, DIM = 96, 8192, 3072


def get_inputs():
    return [
        torch.randn(ROWS, INTER).half(),
        torch.randn(ROWS, INTER).half(),
        torch.randn(ROWS, DIM).half(),
    ]


def get_init_inputs():
    return [INTER, DIM, 64, 0.9]
