import torch
import torch.nn as nn


class Model(nn.Module):
    """K-FAC step of one biased layer: gradient with homogeneous coordinate, moving covariance factors, stale-inverse preconditioning, KL clipping."""

    def __init__(self, decay, lr, kl_clip):
        super().__init__()
        self.decay, self.lr, self.kl_clip = decay, lr, kl_clip

    def forward(self, x, dy, a_ema, s_ema, a_inv, s_inv, weight):
        n = x.shape[0]
        xh = torch.cat((x, torch.ones_like(x[:, :1])), dim=1)
        a_new = self.decay * a_ema + (1.0 - self.decay) * (xh.t() @ xh) / n
        s_new = self.decay * s_ema + (1.0 - self.decay) * (dy.t() @ dy) / n
        grad = (dy.t() @ xh) / n
        nat = s_inv @ grad @ a_inv
        size = (nat * grad).sum().abs() * self.lr ** 2
        nu = torch.clamp(torch.sqrt(self.kl_clip / (size + 1e-12)), max=1.0)
        return weight - self.lr * nu * nat, nat, a_new, s_new


N, IN, OUT = 2048, 1024, 768


def spd(n):
    m = torch.randn(n, n) / n ** 0.5
    return 0.5 * torch.eye(n) + 0.5 * m @ m.t()


def get_inputs():
    x = torch.relu(torch.randn(N, IN))
    return [
        x,
        3.0 * torch.randn(N, OUT),
        spd(IN + 1),
        spd(OUT),
        spd(IN + 1),
        spd(OUT),
        torch.randn(OUT, IN + 1) / IN ** 0.5,
    ]


def get_init_inputs():
    return [0.95, 0.5, 1.0]
