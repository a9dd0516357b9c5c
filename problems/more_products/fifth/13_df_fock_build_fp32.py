import torch
import torch.nn as nn

NAUX, NBF, NOCC = 900, 192, 37


class Model(nn.Module):
    """Density-fitted restricted Hartree-Fock: Coulomb and exchange from three-index integrals, Fock matrix, energy, orbital gradient."""

    def __init__(self, nocc):
        super().__init__()
        self.nocc = nocc

    def forward(self, eri, core, coeff):
        occ, vir = coeff[:, : self.nocc], coeff[:, self.nocc :]
        dens = 2.0 * occ @ occ.t()
        gamma = torch.einsum("pmn,mn->p", eri, dens)
        coulomb = torch.einsum("p,pmn->mn", gamma, eri)
        half = torch.einsum("pmn,ni->pmi", eri, occ)
        exchange = torch.einsum("pmi,pni->mn", half, half)
        fock = core + coulomb - exchange
        energy = 0.5 * (dens * (core + fock)).sum()
        grad = 4.0 * occ.t() @ fock @ vir
        return fock, energy, grad, grad.abs().amax()


def get_inputs():
    eri = torch.randn(NAUX, NBF, NBF) * torch.logspace(-1.2, -2.2, NAUX)[:, None, None]
    core = torch.randn(NBF, NBF) * 0.1
    coeff, _ = torch.linalg.qr(torch.randn(NBF, NBF))
    return [0.5 * (eri + eri.transpose(1, 2)), core + core.t() - 2.0 * torch.eye(NBF), coeff]


def get_init_inputs():
    return [NOCC]
