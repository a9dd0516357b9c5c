import torch
import torch.nn as nn

LAYERS, ROWS, COLS = 4, 3072, 768


class Model(nn.Module):
    """Muon step for a stack of equally shaped weights: Nesterov momentum, quintic Newton-Schulz
    orthogonalisation in bf16 on the narrow side, RMS-matched scale, decoupled weight decay."""

    def __init__(self, steps: int, beta: float, lr: float, wd: float):
        super().__init__()
        self.steps, self.beta, self.lr, self.wd = steps, beta, lr, wd

    def forward(self, grad, buf, param):
        new_buf = torch.lerp(grad, buf, self.beta)
        g = torch.lerp(grad, new_buf, self.beta)
        x = g.transpose(-2, -1)
        x = x / (x.float().norm(dim=(-2, -1), keepdim=True) + 1e-7).to(x.dtype)
        for _ in range(self.steps):
            a = x @ x.transpose(-2, -1)
            b = -4.7750 * a + 2.0315 * (a @ a)
            x = 3.4445 * x + b @ x
        upd = x.transpose(-2, -1) * (0.2 * max(param.shape[-2], param.shape[-1]) ** 0.5)
        new_param = param * (1.0 - self.lr * self.wd) - self.lr * upd
        return new_param, new_buf, upd


def get_inputs():
    return [
        torch.randn(LAYERS, ROWS, COLS, dtype=torch.bfloat16),
        torch.randn(LAYERS, ROWS, COLS, dtype=torch.bfloat16),
        torch.randn(LAYERS, ROWS, COLS, dtype=torch.bfloat16),
    ]


def get_init_inputs():
    return [5, 0.95, 0.02, 0.1]
