import torch
import torch.nn as nn


class Model(nn.Module):
    """GaLore step from a layer's saved tensors: weight gradient, projection to rank 128, Adam in the small space, projection back, decayed update."""

    def __init__(self, lr, beta1, beta2, eps, scale, decay, step):
        super().__init__()
        self.lr, self.b1, self.b2, self.eps = lr, beta1, beta2, eps
        self.scale, self.decay = scale, decay
        self.c1, self.c2 = 1.0 - beta1 ** step, 1.0 - beta2 ** step

    def forward(self, dy, x, p, m, v, w):
        grad = dy.t() @ x
        low = (p.t() @ grad).float()
        m = self.b1 * m + (1.0 - self.b1) * low
        v = self.b2 * v + (1.0 - self.b2) * low * low
        direction = (m / self.c1) / (torch.sqrt(v / self.c2) + self.eps)
        full = (p @ direction.to(p.dtype)).float() * self.scale
        wf = w.float()
        return (wf - self.lr * (full + self.decay * wf)).to(w.dtype), full, m, v


TOKENS, OUT, IN, RANK = 2048, 2048, 5504, 128


def get_inputs():
    bf = torch.bfloat16
    return [
        (0.02 * torch.randn(TOKENS, OUT)).to(bf),
        torch.randn(TOKENS, IN).to(bf),
        (torch.randn(OUT, RANK) / OUT ** 0.5).to(bf),
        0.3 * torch.randn(RANK, IN),
        0.5 + torch.rand(RANK, IN),
        (torch.randn(OUT, IN) / IN ** 0.5).to(bf),
    ]


def get_init_inputs():
    return [0.05, 0.9, 0.999, 1e-8, 1.0, 0.01, 500]
