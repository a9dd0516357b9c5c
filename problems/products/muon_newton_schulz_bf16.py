"""Muon's orthogonalisation of a tall gradient: momentum, Frobenius scaling, five Newton-Schulz steps."""
import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS, COLS, STEPS = 2752, 1024, 5

class Model(nn.Module):
    def __init__(self, steps, beta):
        super().__init__()
        self.steps, self.beta = steps, beta

    def forward(self, grad, momentum):
        momentum = self.beta * momentum + (1 - self.beta) * grad
        g = self.beta * momentum + (1 - self.beta) * grad
        x = g.bfloat16().t()
        x = x / (x.norm() + 1e-7)
        a, b, c = 3.4445, -4.7750, 2.0315
        for _ in range(self.steps):
            s = x @ x.t()
            p = b * s + c * (s @ s)
            x = a * x + p @ x
        return x.t() * (grad.shape[0] / grad.shape[1]) ** 0.5, momentum

def get_inputs():
    return [torch.randn(ROWS, COLS), torch.randn(ROWS, COLS)]

def get_init_inputs():
    return [STEPS, 0.95]
