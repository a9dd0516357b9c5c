import math
import torch
import torch.nn as nn


class Model(nn.Module):
    """S4D kernel generation without a scan: zero-order-hold diagonal system, real-valued Vandermonde product, two directions per feature."""

    def __init__(self, features, states, directions, length):
        super().__init__()
        self.log_dt = nn.Parameter(math.log(0.001) + torch.rand(features) * math.log(100.0))
        self.log_re = nn.Parameter(math.log(0.5) + 0.1 * torch.randn(features, states))
        self.im = nn.Parameter(math.pi * torch.arange(states).float().repeat(features, 1))
        self.c_re = nn.Parameter(0.7 * torch.randn(directions, features, states))
        self.c_im = nn.Parameter(0.7 * torch.randn(directions, features, states))
        self.register_buffer("steps", torch.arange(length).float())

    def forward(self, gain):
        dt = torch.exp(self.log_dt)[:, None]
        a_re, a_im = -torch.exp(self.log_re), self.im
        z_re, z_im = a_re * dt, a_im * dt
        e = torch.exp(z_re)
        n_re, n_im = e * torch.cos(z_im) - 1.0, e * torch.sin(z_im)
        den = a_re * a_re + a_im * a_im
        b_re = (n_re * a_re + n_im * a_im) / den
        b_im = (n_im * a_re - n_re * a_im) / den
        k_re = self.c_re * b_re - self.c_im * b_im
        k_im = self.c_re * b_im + self.c_im * b_re
        mag = torch.exp(z_re[..., None] * self.steps)
        ang = z_im[..., None] * self.steps
        k = torch.einsum("chn,hnl->chl", k_re, mag * torch.cos(ang))
        k = k - torch.einsum("chn,hnl->chl", k_im, mag * torch.sin(ang))
        return (2.0 * k * gain[:, None]).contiguous()


def get_inputs():
    return [0.5 + torch.rand(512)]


def get_init_inputs():
    return [512, 32, 2, 1024]
