import torch
import torch.nn as nn


class Model(nn.Module):
    """Second-order Moller-Plesset correlation energy with density fitting in double precision: three-index integrals in
    the atomic basis are transformed to occupied and virtual orbitals, (ia|jb) is formed from them, weighted by orbital
    energy denominators, and summed to opposite- and same-spin parts, also per pair of occupied orbitals."""

    def __init__(self, os_scale, ss_scale):
        super().__init__()
        self.os_scale, self.ss_scale = os_scale, ss_scale

    def forward(self, fitted, c_occ, c_vir, e_occ, e_vir):
        b = torch.einsum("pmn,mi,na->iap", fitted, c_occ, c_vir)
        occ, vir, aux = b.shape
        flat = b.reshape(occ * vir, aux)
        g = (flat @ flat.t()).view(occ, vir, occ, vir)
        ia = e_occ[:, None] - e_vir[None, :]
        t = g / (ia[:, :, None, None] + ia[None, None, :, :])
        opposite = (t * g).sum(dim=(1, 3))
        exchange = (t * g.transpose(1, 3)).sum(dim=(1, 3))
        same = opposite - exchange
        e_os, e_ss = opposite.sum(), same.sum()
        return e_os, e_ss, self.os_scale * e_os + self.ss_scale * e_ss, opposite + same


AUX, BASIS, OCC, VIR = 480, 130, 20, 110


def get_inputs():
    f64 = torch.float64
    half = torch.randn(AUX, BASIS, BASIS, dtype=f64)
    return [
        0.003 * (half + half.transpose(1, 2)),
        torch.randn(BASIS, OCC, dtype=f64) / BASIS ** 0.5,
        torch.randn(BASIS, VIR, dtype=f64) / BASIS ** 0.5,
        -0.4 - 1.2 * torch.rand(OCC, dtype=f64),
        0.1 + 2.5 * torch.rand(VIR, dtype=f64),
    ]


def get_init_inputs():
    return [1.2, 1.0 / 3.0]
