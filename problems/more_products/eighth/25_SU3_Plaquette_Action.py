import torch
import torch.nn as nn


class Model(nn.Module):
    """Wilson gauge action of lattice QCD: on a periodic four-dimensional lattice every link carries a 3 x 3 special
    unitary matrix, stored as real and imaginary parts. For each of the six planes the product of two links along each
    way round a square is formed and the two ways are compared. Returns the action density and plane averages."""

    def __init__(self, beta):
        super().__init__()
        self.beta = beta

    @staticmethod
    def multiply(a, b):
        (ar, ai), (br, bi) = a, b
        return ar @ br - ai @ bi, ar @ bi + ai @ br

    def forward(self, real, imag):
        # (4, t, x, y, z, 3, 3)
        density, planes = 0, []
        for mu in range(4):
            for nu in range(mu + 1, 4):
                u_mu, u_nu = (real[mu], imag[mu]), (real[nu], imag[nu])
                nu_ahead = tuple(torch.roll(p, -1, dims=mu) for p in u_nu)
                mu_ahead = tuple(torch.roll(p, -1, dims=nu) for p in u_mu)
                ar, ai = self.multiply(u_mu, nu_ahead)
                br, bi = self.multiply(u_nu, mu_ahead)
                trace = (ar * br + ai * bi).sum(dim=(-1, -2)) / 3.0
                density = density + (1.0 - trace)
                planes.append(trace.mean())
        return self.beta * density, torch.stack(planes)


T, L = 24, 12


def get_inputs():
    z = torch.randn(4 * T * L ** 3, 3, 3, dtype=torch.complex64) * 0.4 + torch.eye(3)
    a = z[:, 0] / z[:, 0].norm(dim=-1, keepdim=True)
    b = z[:, 1] - (a.conj() * z[:, 1]).sum(-1, keepdim=True) * a
    b = b / b.norm(dim=-1, keepdim=True)
    u = torch.stack((a, b, torch.linalg.cross(a, b).conj()), dim=1).view(4, T, L, L, L, 3, 3)
    return [u.real.contiguous(), u.imag.contiguous()]


def get_init_inputs():
    return [6.0]
