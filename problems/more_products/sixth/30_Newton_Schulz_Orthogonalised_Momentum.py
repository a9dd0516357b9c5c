import torch
import torch.nn as nn


class Model(nn.Module):
    """Muon optimiser step: Nesterov momentum, Newton-Schulz iterations on the wide matrix, scaled update and decay."""

    def __init__(self, steps, mu, lr, wd):
        super().__init__()
        self.steps, self.mu, self.lr, self.wd = steps, mu, lr, wd

    def forward(self, w, grad, buf):
        buf = self.mu * buf + grad
        g = grad + self.mu * buf
        x = g.t()
        x = x / (torch.sqrt((x * x).sum()) + 1e-7)
        for _ in range(self.steps):
            a = x @ x.t()
            b = -4.7750 * a + 2.0315 * (a @ a)
            x = 3.4445 * x + b @ x
        upd = 0.2 * max(w.shape[0], w.shape[1]) ** 0.5 * x.t()
        return w * (1 - self.lr * self.wd) - self.lr * upd, buf


def get_inputs():
    return [torch.randn(2000, 600) / 600 ** 0.5, torch.randn(2000, 600), torch.randn(2000, 600)]


def get_init_inputs():
    return [5, 0.95, 1.0, 0.1]
