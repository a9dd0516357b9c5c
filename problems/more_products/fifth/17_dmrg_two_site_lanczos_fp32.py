import math
import torch
import torch.nn as nn

CHI, MPO, PHYS = 384, 12, 2


class Model(nn.Module):
    """Two-site DMRG: the effective Hamiltonian (left and right environments, two MPO sites) applied to a state, and one Lanczos step (unit-rms vectors)."""

    def __init__(self, mpo, phys):
        super().__init__()
        w = torch.randn(2, mpo, mpo, phys, phys) / math.sqrt(mpo * phys)
        w = w + w.transpose(-1, -2)
        w[:, 0, 0] += torch.eye(phys)
        self.register_buffer("w1", w[0])
        self.register_buffer("w2", w[1])

    def forward(self, left, right, psi, prev, beta):
        t = torch.einsum("xwa,astb->xwstb", left, psi)
        t = torch.einsum("xwstb,wvSs->xvStb", t, self.w1)
        t = torch.einsum("xvStb,vuTt->xuSTb", t, self.w2)
        hpsi = torch.einsum("xuSTb,yub->xSTy", t, right)
        alpha = (psi * hpsi).mean()
        r = hpsi - alpha * psi - beta * prev
        norm = r.pow(2).mean().sqrt()
        return r / norm, alpha, norm, hpsi


def get_inputs():
    def env():
        e = torch.randn(CHI, MPO, CHI) / math.sqrt(CHI * MPO)
        e = e + e.transpose(0, 2)
        e[:, 0] += torch.eye(CHI)
        return e

    psi = torch.randn(CHI, PHYS, PHYS, CHI)
    psi = psi / psi.pow(2).mean().sqrt()
    prev = torch.randn(CHI, PHYS, PHYS, CHI)
    prev = prev - (prev * psi).mean() * psi
    return [env(), env(), psi, prev / prev.pow(2).mean().sqrt(), torch.tensor(0.7)]


def get_init_inputs():
    return [MPO, PHYS]
