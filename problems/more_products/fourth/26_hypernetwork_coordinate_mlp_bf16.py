import torch
import torch.nn as nn
import torch.nn.functional as F

SAMPLES, POINTS, LATENT, ENC, WIDTH, OUT = 64, 1500, 256, 34, 64, 3


class Model(nn.Module):
    """Hypernetwork: a latent per sample produces every weight and bias of a 3-layer coordinate MLP, applied to the
    sample's points by baddbmm on views of the joint weight vector."""

    def __init__(self, latent, enc, width, out):
        super().__init__()
        self.shapes = [(enc, width), (width, width), (width, out)]
        total = sum(i * o + o for i, o in self.shapes)
        self.trunk = nn.Linear(latent, 512)
        self.head = nn.Linear(512, total)
        nn.init.normal_(self.head.weight, std=0.01)
        self.base = nn.Parameter(torch.cat([
            t for i, o in self.shapes for t in (torch.randn(i * o) / i**0.5, 0.1 * torch.randn(o))]))
        self.to(torch.bfloat16)

    def forward(self, z, points):
        flat = self.base + self.head(F.silu(self.trunk(z)))
        h, at = points, 0
        for n, (i, o) in enumerate(self.shapes):
            w = flat[:, at : at + i * o].view(-1, i, o)
            b = flat[:, at + i * o : at + i * o + o].unsqueeze(1)
            at += i * o + o
            h = torch.baddbmm(b, h, w)
            if n < 2:
                h = F.leaky_relu(h, 0.1)
        return torch.sigmoid(h)


def get_inputs():
    return [
        torch.randn(SAMPLES, LATENT, dtype=torch.bfloat16),
        (2.0 * torch.rand(SAMPLES, POINTS, ENC) - 1.0).to(torch.bfloat16),
    ]


def get_init_inputs():
    return [LATENT, ENC, WIDTH, OUT]
