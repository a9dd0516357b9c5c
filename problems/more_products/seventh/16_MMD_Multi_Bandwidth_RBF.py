import torch
import torch.nn as nn


class Model(nn.Module):
    """Unbiased squared MMD between two samples with a sum of five Gaussian kernels, and the witness function at every point."""

    def __init__(self, multipliers):
        super().__init__()
        self.multipliers = multipliers

    def kernel(self, a, b):
        d2 = (a * a).sum(1)[:, None] + (b * b).sum(1)[None, :] - 2.0 * (a @ b.t())
        d2 = d2.clamp_min(0.0) / (2.0 * a.shape[1])
        return sum(torch.exp(-d2 / m) for m in self.multipliers)

    def forward(self, x, y, off_x, off_y):
        n, m = x.shape[0], y.shape[0]
        kxx = self.kernel(x, x) * off_x
        kyy = self.kernel(y, y) * off_y
        kxy = self.kernel(x, y)
        sx = kxx.sum(1) / (n - 1)
        sy = kyy.sum(1) / (m - 1)
        cx = kxy.mean(1)
        cy = kxy.mean(0)
        mmd = sx.mean() + sy.mean() - 2.0 * cx.mean()
        return mmd, sx - cx, cy - sy


N, M, D = 2048, 1500, 333


def get_inputs():
    return [
        torch.randn(N, D),
        0.8 * torch.randn(M, D) + 0.5,
        1.0 - torch.eye(N),
        1.0 - torch.eye(M),
    ]


def get_init_inputs():
    return [[0.25, 0.5, 1.0, 2.0, 4.0]]
