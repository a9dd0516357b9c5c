import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, c_z, c_hidden):
        super().__init__()
        self.norm_in = nn.LayerNorm(c_z)
        self.ab_p = nn.Linear(c_z, 2 * c_hidden)
        self.ab_g = nn.Linear(c_z, 2 * c_hidden)
        self.g = nn.Linear(c_z, c_z)
        self.norm_out = nn.LayerNorm(c_hidden)
        self.z = nn.Linear(c_hidden, c_z)

    def forward(self, z, mask):
        x = self.norm_in(z)
        ab = mask.unsqueeze(-1) * torch.sigmoid(self.ab_g(x)) * self.ab_p(x)
        a, b = ab.chunk(2, dim=-1)
        p = torch.matmul(a.permute(0, 3, 1, 2), b.permute(0, 3, 2, 1))
        p = self.norm_out(p.permute(0, 2, 3, 1))
        return z + self.z(p) * torch.sigmoid(self.g(x))


def get_inputs():
    return [torch.randn(1, 256, 256, 128), (torch.rand(1, 256, 256) > 0.1).float()]


def get_init_inputs():
    return [128, 128]
