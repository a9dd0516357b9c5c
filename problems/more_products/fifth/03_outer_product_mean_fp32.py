import torch
import torch.nn as nn

MSA, RES, C_M, C_HID, C_Z = 124, 200, 256, 32, 128


class Model(nn.Module):
    """AlphaFold Evoformer outer product mean: masked MSA to a pair update, added to the pair representation."""

    def __init__(self, c_m, c_hid, c_z):
        super().__init__()
        self.norm = nn.LayerNorm(c_m)
        self.linear_a = nn.Linear(c_m, c_hid)
        self.linear_b = nn.Linear(c_m, c_hid)
        self.linear_out = nn.Linear(c_hid * c_hid, c_z)

    def forward(self, m, mask, z):
        mn = self.norm(m)
        a = self.linear_a(mn) * mask[..., None]
        b = self.linear_b(mn) * mask[..., None]
        outer = torch.einsum("sic,sjd->ijcd", a, b)
        outer = self.linear_out(outer.reshape(*outer.shape[:2], -1))
        count = torch.einsum("si,sj->ij", mask, mask)
        return z + outer / (count[..., None] + 1e-3)


def get_inputs():
    return [
        torch.randn(MSA, RES, C_M),
        (torch.rand(MSA, RES) > 0.15).float(),
        torch.randn(RES, RES, C_Z),
    ]


def get_init_inputs():
    return [C_M, C_HID, C_Z]
