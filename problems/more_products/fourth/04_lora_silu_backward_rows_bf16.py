import math
import torch
import torch.nn as nn

ROWS, N_IN, N_OUT, RANK = 3072, 2048, 1536, 32


class Model(nn.Module):
    """Backward of silu(x W^T + bias + s (x A^T) B^T) for a frozen W: gradients of x, A, B and bias."""

    def __init__(self, n_in, n_out, rank, scale):
        super().__init__()
        self.w = nn.Parameter(torch.randn(n_out, n_in) / math.sqrt(n_in), requires_grad=False)
        self.bias = nn.Parameter(torch.randn(n_out) * 0.02)
        self.a = nn.Parameter(torch.randn(rank, n_in) / math.sqrt(n_in))
        self.b = nn.Parameter(torch.randn(n_out, rank) / math.sqrt(rank))
        self.scale = scale
        self.to(torch.bfloat16)

    def forward(self, x, grad):
        low = x @ self.a.t()
        pre = torch.addmm(torch.addmm(self.bias, x, self.w.t()), low, self.b.t(), alpha=self.scale)
        sig = torch.sigmoid(pre.float())
        dpre32 = grad.float() * sig * (1.0 + pre.float() * (1.0 - sig))
        dpre = dpre32.to(x.dtype)
        dlow = self.scale * (dpre @ self.b)
        dx = torch.addmm(dpre @ self.w, dlow, self.a)
        da = dlow.t() @ x
        db = self.scale * (dpre.t() @ low)
        return dx, da, db, dpre32.sum(0)


def get_inputs():
    mag = 10.0 ** (2.0 * torch.rand(ROWS, 1) - 1.5)  # rows from 0.03 to 3
    x = torch.randn(ROWS, N_IN) * mag
    grad = torch.randn(ROWS, N_OUT) * mag.flip(0)
    return [x.to(torch.bfloat16), grad.to(torch.bfloat16)]


def get_init_inputs():
    return [N_IN, N_OUT, RANK, 0.5]
