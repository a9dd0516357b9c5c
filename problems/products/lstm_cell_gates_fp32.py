"""One LSTM cell step over a batch: a joined product with [x, h], then the four gates."""
import torch
import torch.nn as nn
import torch.nn.functional as F

B, IN, HID = 512, 640, 1024

class Model(nn.Module):
    def __init__(self, n_in, hid):
        super().__init__()
        k = n_in + hid
        self.weight = nn.Parameter(torch.randn(4 * hid, k) * k ** -0.5)
        self.bias = nn.Parameter(0.1 * torch.randn(4 * hid))

    def forward(self, x, h, c):
        gates = torch.cat([x, h], dim=1) @ self.weight.t() + self.bias
        i, f, g, o = gates.chunk(4, dim=1)
        c_new = torch.sigmoid(f + 1.0) * c + torch.sigmoid(i) * torch.tanh(g)
        h_new = torch.sigmoid(o) * torch.tanh(c_new)
        return h_new, c_new

def get_inputs():
    return [torch.randn(B, IN), torch.tanh(torch.randn(B, HID)), torch.randn(B, HID)]

def get_init_inputs():
    return [IN, HID]
