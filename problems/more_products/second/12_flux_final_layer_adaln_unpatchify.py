import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, hidden, patch, channels):
        super().__init__()
        self.patch, self.channels = patch, channels
        self.norm_final = nn.LayerNorm(hidden, elementwise_affine=False, eps=1e-6)
        self.linear = nn.Linear(hidden, patch * patch * channels, dtype=torch.bfloat16)
        self.adaLN = nn.Sequential(nn.SiLU(), nn.Linear(hidden, 2 * hidden, dtype=torch.bfloat16))

    def forward(self, x, vec):
        shift, scale = self.adaLN(vec).chunk(2, dim=1)
        x = (1 + scale[:, None, :]) * self.norm_final(x) + shift[:, None, :]
        x = self.linear(x)
        B, L, _ = x.shape
        side = int(L ** 0.5)
        x = x.view(B, side, side, self.channels, self.patch, self.patch)
        return x.permute(0, 3, 1, 4, 2, 5).reshape(B, self.channels, side * self.patch, side * self.patch)


def get_inputs():
    return [
        torch.randn(1, 4096, 3072, dtype=torch.bfloat16),
        torch.randn(1, 3072, dtype=torch.bfloat16),
    ]


def get_init_inputs():
    return [3072, 2, 16]
