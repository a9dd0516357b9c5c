import math
import torch
import torch.nn as nn

ROWS, COLS = 1408, 768


class Model(nn.Module):
    """PSGD-Kron (QUAD) optimiser step: momentum, update of both symmetric Kronecker factors, preconditioned and clipped weight step."""

    def __init__(self, lr, beta, precond_lr, weight_decay):
        super().__init__()
        self.lr, self.beta, self.precond_lr, self.weight_decay = lr, beta, precond_lr, weight_decay

    def spd_norm(self, a):
        v = a.norm(dim=1)
        v = a @ (v / v.norm())
        return (a @ (v / v.norm())).norm()

    def quad(self, q, term1, term2, lips):
        ell = self.spd_norm(term1) + term2
        lips = torch.maximum(0.9 * lips + 0.1 * ell, ell)
        step = 0.5 * self.precond_lr / lips
        p = q - step * (term1 @ q - term2 * q)
        p = p - step * (p @ term1 - term2 * p)
        return 0.5 * (p + p.t()), lips

    def forward(self, weight, grad, momentum, q_l, q_r, lips_l, lips_r):
        m, n = grad.shape
        momentum = self.beta * momentum + (1.0 - self.beta) * grad
        pg = q_l @ (q_l @ grad @ q_r) @ q_r
        new_l, lips_l = self.quad(q_l, pg @ pg.t(), float(n), lips_l)
        new_r, lips_r = self.quad(q_r, pg.t() @ pg, float(m), lips_r)
        upd = new_l @ (new_l @ momentum @ new_r) @ new_r
        rms = upd.pow(2).mean().sqrt()
        upd = upd * torch.clamp(1.1 / (rms + 1e-8), max=1.0)
        weight = weight * (1.0 - self.lr * self.weight_decay) - self.lr * upd
        return weight, momentum, new_l, new_r, lips_l, lips_r


def get_inputs():
    def factor(n):
        a = torch.randn(n, n) / math.sqrt(n)
        return 2.6 * (torch.eye(n) + 0.1 * (a + a.t()))

    return [
        torch.randn(ROWS, COLS) / math.sqrt(COLS),
        0.02 * torch.randn(ROWS, COLS),
        0.01 * torch.randn(ROWS, COLS),
        factor(ROWS),
        factor(COLS),
        torch.tensor(2.0 * (ROWS + COLS)),
        torch.tensor(2.0 * (ROWS + COLS)),
    ]


def get_init_inputs():
    return [0.1, 0.9, 0.1, 0.1]
