import torch
import torch.nn as nn


class Model(nn.Module):
    """Update of the Muon optimiser for a tall weight: Nesterov momentum in float32, then the matrix, turned on its side
    and divided by its norm, is made nearly orthogonal by five quintic Newton-Schulz steps in bfloat16, turned back and
    scaled by its shape. Returns the update and the new momentum."""

    def __init__(self, beta, steps):
        super().__init__()
        self.beta, self.steps = beta, steps

    def forward(self, grad, momentum):
        momentum = torch.lerp(grad.float(), momentum, self.beta)
        x = torch.lerp(grad.float(), momentum, self.beta)
        rows, columns = x.shape
        x = (x / (x.norm() + 1e-7)).to(torch.bfloat16).t()
        for _ in range(self.steps):
            a = x @ x.t()
            b = -4.7750 * a + 2.0315 * (a @ a)
            x = 3.4445 * x + b @ x
        return x.t() * max(1.0, rows / columns) ** 0.5, momentum


ROWS, COLUMNS = 1376, 520


def get_inputs():
    return [torch.randn(ROWS, COLUMNS).to(torch.bfloat16), torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return [0.95, 5]
