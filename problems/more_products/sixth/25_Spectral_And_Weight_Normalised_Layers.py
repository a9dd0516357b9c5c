import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Discriminator head: a spectrally normalised linear (one power step) followed by a weight-normalised one."""

    def __init__(self, d_in, d_hid, d_out):
        super().__init__()
        self.w = nn.Parameter(torch.randn(d_hid, d_in) / d_in ** 0.5)
        self.b = nn.Parameter(0.1 * torch.randn(d_hid))
        self.register_buffer("u", F.normalize(torch.randn(d_hid), dim=0))
        self.v2 = nn.Parameter(torch.randn(d_out, d_hid))
        self.g2 = nn.Parameter(1.0 + torch.rand(d_out, 1))

    def forward(self, x):
        v = F.normalize(torch.mv(self.w.t(), self.u), dim=0, eps=1e-12)
        wv = torch.mv(self.w, v)
        u = F.normalize(wv, dim=0, eps=1e-12)
        sigma = torch.dot(u, wv)
        h = F.leaky_relu(F.linear(x, 3.0 * self.w / sigma, self.b), 0.2)
        w2 = self.g2 * self.v2 / self.v2.norm(dim=1, keepdim=True)
        return F.linear(h, w2), sigma


def get_inputs():
    return [torch.randn(1000, 777)]


def get_init_inputs():
    return [777, 333, 141]
