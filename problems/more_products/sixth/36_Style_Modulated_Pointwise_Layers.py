import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Style-modulated, demodulated pointwise mixing per sample with noise and activation, followed by a modulated to-RGB product with skip."""

    def __init__(self, w_dim, c_in, c_out):
        super().__init__()
        self.affine = nn.Linear(w_dim, c_in)
        self.affine_rgb = nn.Linear(w_dim, c_out)
        self.weight = nn.Parameter(torch.randn(c_out, c_in))
        self.bias = nn.Parameter(0.1 * torch.randn(c_out, 1))
        self.strength = nn.Parameter(torch.tensor(0.3))
        self.rgb = nn.Parameter(torch.randn(3, c_out) / c_out ** 0.5)

    def forward(self, x, w, noise, skip):
        s = self.affine(w) + 1.0
        m = self.weight.unsqueeze(0) * s.unsqueeze(1)
        m = m * torch.rsqrt((m * m).sum(-1, keepdim=True) + 1e-8)
        y = torch.bmm(m, x) + self.strength * noise.unsqueeze(1) + self.bias
        y = F.leaky_relu(y, 0.2) * 1.41421356
        t = (self.affine_rgb(w) + 1.0).unsqueeze(1) * self.rgb
        return y, (torch.bmm(t, y) + skip).clamp(-4.0, 4.0)


B, W, CI, CO, HW = 8, 512, 512, 384, 64 * 64


def get_inputs():
    return [torch.randn(B, CI, HW), torch.randn(B, W), torch.randn(B, HW), torch.randn(B, 3, HW)]


def get_init_inputs():
    return [W, CI, CO]
