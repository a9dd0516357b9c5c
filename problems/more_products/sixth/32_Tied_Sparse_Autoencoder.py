import torch
import torch.nn as nn


class Model(nn.Module):
    """Tied-weight ReLU autoencoder on activations: centred input, code, reconstruction, per-row error and sparsity terms."""

    def __init__(self, dim, feats):
        super().__init__()
        self.w = nn.Parameter((torch.randn(dim, feats) / dim ** 0.5).half())
        self.b_enc = nn.Parameter((0.3 * torch.randn(feats) - 0.5).half())
        self.b_dec = nn.Parameter((0.3 * torch.randn(dim)).half())
        self.gain = 4.0 * dim / feats

    def forward(self, x):
        f = torch.relu((x - self.b_dec) @ self.w + self.b_enc)
        rec = self.gain * (f @ self.w.t()) + self.b_dec
        err = (rec.float() - x.float()).pow(2).mean(-1)
        wnorm = self.w.float().pow(2).sum(0).sqrt()
        l1 = (f.float() * wnorm).mean(-1)
        return rec, err, l1


def get_inputs():
    return [torch.randn(1500, 768).half()]


def get_init_inputs():
    return [768, 6144]
