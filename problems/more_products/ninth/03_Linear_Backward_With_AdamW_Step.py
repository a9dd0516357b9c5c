import torch
import torch.nn as nn


class Model(nn.Module):
    """Backward pass of a linear layer fused with its AdamW step: the input gradient from the old bfloat16 weight, the
    weight gradient product, clipping of its norm, float32 moments, the float32 master weight and its bfloat16 copy.
    Step counter, moments, master and copy are all updated in place. Returns the input gradient and the norm."""

    def __init__(self, lr, beta1, beta2, eps, decay, clip):
        super().__init__()
        self.lr, self.b1, self.b2, self.eps, self.decay, self.clip = lr, beta1, beta2, eps, decay, clip

    def forward(self, x, dy, weight, master, m, v, step):
        dx = dy @ weight
        g = (dy.t() @ x).float()
        norm = g.pow(2).sum().sqrt()
        g = g * (self.clip / (norm + 1e-6)).clamp(max=1.0)

        step.add_(1)
        t = step.float()
        c1 = 1 - torch.pow(self.b1, t)
        c2 = 1 - torch.pow(self.b2, t)
        m.mul_(self.b1).add_(g, alpha=1 - self.b1)
        v.mul_(self.b2).addcmul_(g, g, value=1 - self.b2)
        master.mul_(1 - self.lr * self.decay).sub_(self.lr * (m / c1) / ((v / c2).sqrt() + self.eps))
        weight.copy_(master)
        return dx, norm


ROWS, K, N = 2048, 1000, 776


def get_inputs():
    master = torch.randn(N, K) / K**0.5
    return [
        torch.randn(ROWS, K).to(torch.bfloat16),
        (torch.randn(ROWS, N) / ROWS).to(torch.bfloat16),
        master.to(torch.bfloat16),
        master,
        1e-3 * torch.randn(N, K),
        1e-6 * (0.5 + torch.rand(N, K)),
        torch.full((1,), 99, dtype=torch.int64),
    ]


def get_init_inputs():
    return [1e-3, 0.9, 0.95, 1e-8, 0.1, 1.0]
