import torch
import torch.nn as nn

ROWS, COLS = 1280, 1920


class Model(nn.Module):
    """Shampoo step for one weight matrix: statistics update with G G^T and G^T G, one coupled Newton refinement
    of the left inverse fourth root, two-sided preconditioning, grafting to the RMSProp step size, momentum."""

    def __init__(self, beta: float, momentum: float, lr: float, eps: float):
        super().__init__()
        self.beta, self.momentum, self.lr, self.eps = beta, momentum, lr, eps

    def forward(self, g, stat_l, stat_r, root_l, root_r, second, mom, weight):
        n, m = g.shape
        new_l = self.beta * stat_l + (1 - self.beta) / m * (g @ g.t())
        new_r = torch.addmm(stat_r, g.t(), g, beta=self.beta, alpha=(1 - self.beta) / n)
        # X <- X (5 I - X^4 A) / 4 : Newton step for A^(-1/4)
        eye = torch.eye(n, dtype=g.dtype, device=g.device)
        x2 = root_l @ root_l
        new_root_l = 0.25 * (root_l @ (5.0 * eye - x2 @ (x2 @ new_l)))
        pre = new_root_l @ g @ root_r
        new_second = self.beta * second + (1 - self.beta) * g.square()
        graft = (g * torch.rsqrt(new_second + self.eps)).norm()
        pre = pre * (graft / (pre.norm() + 1e-16))
        new_mom = self.momentum * mom + pre
        new_w = weight - self.lr * (pre + self.momentum * new_mom)
        return new_w, new_mom, new_second, new_l, new_r, new_root_l


def get_inputs():
    def sym(n):
        q = torch.randn(n, n)
        return 0.02 * n ** -0.5 * (q + q.t())

    # statistics near the identity, so that roots near the identity fit them
    return [
        torch.randn(ROWS, COLS),
        torch.eye(ROWS) + sym(ROWS),
        torch.eye(COLS) + sym(COLS),
        torch.eye(ROWS) + sym(ROWS),
        torch.eye(COLS) + sym(COLS),
        torch.rand(ROWS, COLS) + 0.5,
        torch.randn(ROWS, COLS),
        torch.randn(ROWS, COLS),
    ]


def get_init_inputs():
    return [0.95, 0.9, 0.1, 1e-8]
