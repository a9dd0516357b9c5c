import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, c_m, c_hidden, c_z):
        super().__init__()
        self.layer_norm = nn.LayerNorm(c_m)
        self.linear_1 = nn.Linear(c_m, c_hidden)
        self.linear_2 = nn.Linear(c_m, c_hidden)
        self.linear_out = nn.Linear(c_hidden * c_hidden, c_z)

    def forward(self, m, mask):
        ln = self.layer_norm(m)
        mask = mask.unsqueeze(-1)
        a = self.linear_1(ln) * mask
        b = self.linear_2(ln) * mask
        outer = torch.einsum("sic,sje->ijce", a, b).flatten(2)
        norm = torch.einsum("sic,sjc->ijc", mask, mask)
        return self.linear_out(outer) / (norm + 1e-3)


def get_inputs():
    return [torch.randn(128, 197, 256), (torch.rand(128, 197) > 0.05).float()]


def get_init_inputs():
    return [256, 32, 128]
