import torch
import torch.nn as nn

TRACKS, MEAS, STATE = 8192, 17, 23


class Model(nn.Module):
    """One predict + update of 8192 Kalman filters (23 states, 17 measurements) with a given gain, in Joseph form;
    tracks without a measurement (mask) keep their prediction."""

    def __init__(self, meas, state):
        super().__init__()
        self.f = nn.Parameter(torch.eye(state) + 0.05 * torch.randn(state, state))
        self.q = nn.Parameter(0.01 + 0.02 * torch.rand(state))
        self.r = nn.Parameter(0.5 + torch.rand(meas))
        self.register_buffer("eye", torch.eye(state))

    def forward(self, x, p, h, gain, z, seen):
        x = x @ self.f.t()
        p = self.f @ p @ self.f.t() + torch.diag(self.q)
        innov = z - torch.bmm(h, x.unsqueeze(-1)).squeeze(-1)
        a = self.eye - torch.bmm(gain, h)
        p_new = torch.bmm(torch.bmm(a, p), a.transpose(1, 2))
        p_new = torch.baddbmm(p_new, gain * self.r, gain.transpose(1, 2))
        x_new = x + torch.bmm(gain, innov.unsqueeze(-1)).squeeze(-1)
        keep = seen[:, None]
        return torch.where(keep, x_new, x), torch.where(keep[..., None], p_new, p), innov


def get_inputs():
    root = torch.randn(TRACKS, STATE, STATE) / STATE**0.5
    h = torch.randn(TRACKS, MEAS, STATE) / STATE**0.5
    return [
        torch.randn(TRACKS, STATE),
        root @ root.transpose(1, 2) + 0.1 * torch.eye(STATE),
        h,
        0.3 * h.transpose(1, 2) + 0.02 * torch.randn(TRACKS, STATE, MEAS),
        torch.randn(TRACKS, MEAS),
        torch.rand(TRACKS) < 0.8,
    ]


def get_init_inputs():
    return [MEAS, STATE]
