import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """NeRF field: sine-cosine encodings of points and directions, eight-layer MLP with a concatenated skip, density and colour heads."""

    def __init__(self, width, xyz_freqs, dir_freqs):
        super().__init__()
        self.register_buffer("fx", 2.0 ** torch.arange(xyz_freqs).float())
        self.register_buffer("fd", 2.0 ** torch.arange(dir_freqs).float())
        ex, ed = 3 + 6 * xyz_freqs, 3 + 6 * dir_freqs
        ins = [ex] + [width] * 4 + [width + ex] + [width] * 2
        self.trunk = nn.ModuleList([nn.Linear(i, width) for i in ins])
        self.density = nn.Linear(width, 1)
        self.feature = nn.Linear(width, width)
        self.view = nn.Linear(width + ed, width // 2)
        self.rgb = nn.Linear(width // 2, 3)
        for m in self.modules():
            if isinstance(m, nn.Linear):
                nn.init.normal_(m.weight, std=(2.0 / m.in_features) ** 0.5)

    @staticmethod
    def encode(p, f):
        a = (p[:, None, :] * f[:, None]).flatten(1)
        return torch.cat((p, a.sin(), a.cos()), dim=-1)

    def forward(self, xyz, d):
        e = self.encode(xyz, self.fx)
        h = e
        for i, layer in enumerate(self.trunk):
            if i == 5:
                h = torch.cat((e, h), dim=-1)
            h = F.relu(layer(h))
        sigma = F.softplus(self.density(h))
        v = F.relu(self.view(torch.cat((self.feature(h), self.encode(d, self.fd)), dim=-1)))
        return torch.sigmoid(self.rgb(v)), sigma


POINTS = 32768


def get_inputs():
    return [2.0 * torch.rand(POINTS, 3) - 1.0, F.normalize(torch.randn(POINTS, 3), dim=-1)]


def get_init_inputs():
    return [256, 10, 4]
