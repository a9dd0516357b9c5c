import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Backward pass of a SwiGLU feed-forward in bfloat16, written out, with the hidden activations computed anew:
    returns the gradients of the input and of the gate, up and down weights."""

    def __init__(self, dim, hidden):
        super().__init__()
        self.gate = nn.Parameter((torch.randn(hidden, dim) / dim**0.5).to(torch.bfloat16))
        self.up = nn.Parameter((torch.randn(hidden, dim) / dim**0.5).to(torch.bfloat16))
        self.down = nn.Parameter((torch.randn(dim, hidden) / hidden**0.5).to(torch.bfloat16))

    def forward(self, x, dy):
        g = F.linear(x, self.gate).float()
        u = F.linear(x, self.up).float()
        s = torch.sigmoid(g)
        silu = g * s
        dh = (dy @ self.down).float()

        d_down = dy.t() @ (silu * u).to(x.dtype)
        du = (dh * silu).to(x.dtype)
        dg = (dh * u * (s + silu * (1 - s))).to(x.dtype)
        dx = du @ self.up + dg @ self.gate
        return dx, dg.t() @ x, du.t() @ x, d_down


ROWS, DIM, HIDDEN = 771, 648, 1736


def get_inputs():
    return [torch.randn(ROWS, DIM).to(torch.bfloat16), torch.randn(ROWS, DIM).to(torch.bfloat16)]


def get_init_inputs():
    return [DIM, HIDDEN]
