import torch
import torch.nn as nn


class Model(nn.Module):
    """Similarity of two networks layer by layer: linear centred kernel alignment with the unbiased HSIC estimator over a
    minibatch of 500 examples, for each of 12 layers of one encoder against 12 of a wider one. Gram matrices without
    their diagonals, then all pairs at once as products of flattened matrices and of their row sums."""

    def __init__(self):
        super().__init__()

    def gram(self, x):
        k = x @ x.transpose(1, 2)
        eye = torch.eye(k.shape[-1], device=k.device, dtype=torch.bool)
        return k.masked_fill(eye, 0.0)

    def hsic(self, k, l):
        n = k.shape[-1]
        trace = k.flatten(1) @ l.flatten(1).t()
        rows_k, rows_l = k.sum(-1), l.sum(-1)
        total = rows_k.sum(-1)[:, None] * rows_l.sum(-1)[None, :] / ((n - 1) * (n - 2))
        mixed = rows_k @ rows_l.t() * (2.0 / (n - 2))
        return (trace + total - mixed) / (n * (n - 3))

    def forward(self, a, b):
        k, l = self.gram(a), self.gram(b)
        kl = self.hsic(k, l)
        kk = torch.diagonal(self.hsic(k, k))
        ll = torch.diagonal(self.hsic(l, l))
        return kl / (kk[:, None] * ll[None, :]).sqrt(), kl


LAYERS, EXAMPLES = 12, 500


def get_inputs():
    shared = torch.randn(1, EXAMPLES, 64)
    a = torch.randn(LAYERS, EXAMPLES, 768) + shared @ torch.randn(LAYERS, 64, 768) / 8
    b = torch.randn(LAYERS, EXAMPLES, 1024) + shared @ torch.randn(LAYERS, 64, 1024) / 8
    return [a / 768 ** 0.5, b / 1024 ** 0.5]


def get_init_inputs():
    return []
