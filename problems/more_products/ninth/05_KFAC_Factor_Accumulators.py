import torch
import torch.nn as nn


class Model(nn.Module):
    """Statistics of K-FAC for a linear layer with bias: activations with a column of ones and output gradients give the
    two Kronecker factors, kept as decayed sums in place beside a sample counter. Returns the weight gradient (bias as
    last column) and the two damping terms, split by the ratio of the mean traces."""

    def __init__(self, decay, damping):
        super().__init__()
        self.decay, self.damping = decay, damping

    def forward(self, x, grad, acc_a, acc_g, samples):
        batch, tokens, _ = x.shape
        rows = batch * tokens
        a = torch.cat((x, x.new_ones(batch, tokens, 1)), dim=-1).flatten(0, 1)
        g = grad.flatten(0, 1) * batch

        acc_a.mul_(self.decay).add_((a.t() @ a) / rows, alpha=1 - self.decay)
        acc_g.mul_(self.decay).add_((g.t() @ g) / rows, alpha=1 - self.decay)
        samples.add_(rows)

        mean_a = acc_a.diagonal().sum() / acc_a.shape[0]
        mean_g = acc_g.diagonal().sum() / acc_g.shape[0]
        pi = (mean_a / mean_g).sqrt()
        return (g.t() @ a) / batch, pi * self.damping**0.5, self.damping**0.5 / pi


BATCH, TOKENS, DIM, OUT = 32, 65, 769, 512


def get_inputs():
    return [
        torch.randn(BATCH, TOKENS, DIM),
        torch.randn(BATCH, TOKENS, OUT) / BATCH,
        torch.eye(DIM + 1) + 0.01 * torch.ones(DIM + 1, DIM + 1),
        torch.eye(OUT) + 0.01 * torch.ones(OUT, OUT),
        torch.full((1,), 2080, dtype=torch.int64),
    ]


def get_init_inputs():
    return [0.95, 1e-3]
