"""NeRF: Fourier features of points in fp32, a half-precision MLP with a concatenated skip, density and colour."""
import torch
import torch.nn as nn
import torch.nn.functional as F

N, FREQS, HID = 65536, 10, 256

class Model(nn.Module):
    def __init__(self, freqs, hid):
        super().__init__()
        e = 3 + 6 * freqs
        self.register_buffer("freq", 2.0 ** torch.arange(freqs))
        ins = [e, hid, hid, hid + e, hid]
        self.w = nn.ParameterList([nn.Parameter((torch.randn(hid, i) * (2 / i) ** 0.5).half()) for i in ins])
        self.b = nn.ParameterList([nn.Parameter((0.1 * torch.randn(hid)).half()) for _ in ins])
        self.out_w = nn.Parameter((torch.randn(4, hid) * hid ** -0.5).half())
        self.out_b = nn.Parameter((0.1 * torch.randn(4)).half())

    def forward(self, points):
        ang = (points[:, None, :] * self.freq[:, None]).flatten(1)
        e = torch.cat([points, ang.sin(), ang.cos()], dim=-1).half()
        h = e
        for i in range(5):
            if i == 3:
                h = torch.cat([e, h], dim=-1)
            h = F.relu(F.linear(h, self.w[i], self.b[i]))
        y = F.linear(h, self.out_w, self.out_b).float()
        return F.softplus(y[:, :1]), torch.sigmoid(y[:, 1:])

def get_inputs():
    return [2 * torch.rand(N, 3) - 1]

def get_init_inputs():
    return [FREQS, HID]
