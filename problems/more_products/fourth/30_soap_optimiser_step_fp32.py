import torch
import torch.nn as nn

ROWS, COLS = 1024, 1500


class Model(nn.Module):
    """One SOAP step for a weight matrix: gradient rotated into the Kronecker eigenbases, Adam there, rotated back,
    decoupled weight decay, moving averages of G G^T and G^T G. Returns the new state and the raw update."""

    def __init__(self, lr, beta1, beta2, eps, decay, step):
        super().__init__()
        self.lr, self.b1, self.b2, self.eps, self.decay = lr, beta1, beta2, eps, decay
        self.fix = (1.0 - beta2**step) ** 0.5 / (1.0 - beta1**step)

    def forward(self, w, g, m, v, left, right, ql, qr):
        m = torch.lerp(m, g, 1.0 - self.b1)
        g_rot = ql.t() @ g @ qr
        m_rot = ql.t() @ m @ qr
        v = self.b2 * v + (1.0 - self.b2) * g_rot.square()
        upd = ql @ (self.fix * m_rot / (v.sqrt() + self.eps)) @ qr.t()
        w = w * (1.0 - self.lr * self.decay) - self.lr * upd
        left = torch.addmm(left, g, g.t(), beta=self.b2, alpha=1.0 - self.b2)
        right = torch.addmm(right, g.t(), g, beta=self.b2, alpha=1.0 - self.b2)
        return w, upd, m, v, left, right


def get_inputs():
    g = 0.3 * torch.randn(ROWS, COLS)
    gl, gr = torch.randn(ROWS, 64), torch.randn(COLS, 64)
    return [
        torch.randn(ROWS, COLS) / COLS**0.5,
        g,
        0.3 * g + 0.1 * torch.randn(ROWS, COLS),
        0.1 * (0.1 + torch.rand(ROWS, COLS)),
        0.5 * gl @ gl.t() + 0.1 * torch.eye(ROWS),
        0.5 * gr @ gr.t() + 0.1 * torch.eye(COLS),
        torch.randn(ROWS, ROWS) / ROWS**0.5,
        torch.randn(COLS, COLS) / COLS**0.5,
    ]


def get_init_inputs():
    return [3e-3, 0.95, 0.95, 1e-8, 0.01, 100]
