"""Self-distillation head: mean over tokens, two GELU layers, unit bottleneck, weight-normalised prototypes."""
import torch
import torch.nn as nn
import torch.nn.functional as F

B, T, D, HID, BOT, PROTO = 128, 197, 768, 2048, 256, 8192

class Model(nn.Module):
    def __init__(self, d, hid, bot, proto):
        super().__init__()
        self.w1 = nn.Parameter(torch.randn(hid, d) * d ** -0.5)
        self.b1 = nn.Parameter(0.1 * torch.randn(hid))
        self.w2 = nn.Parameter(torch.randn(bot, hid) * hid ** -0.5)
        self.b2 = nn.Parameter(0.1 * torch.randn(bot))
        self.v = nn.Parameter(torch.randn(proto, bot))
        self.g = nn.Parameter(1 + 0.1 * torch.randn(proto, 1))

    def forward(self, tokens):
        x = tokens.mean(dim=1)
        x = F.gelu(F.linear(x, self.w1, self.b1))
        x = F.linear(x, self.w2, self.b2)
        x = F.normalize(x, dim=-1, eps=1e-12)
        w = self.g * self.v / self.v.norm(dim=1, keepdim=True)
        return F.linear(x, w) / 0.1

def get_inputs():
    return [torch.randn(B, T, D) + torch.randn(B, 1, D)]

def get_init_inputs():
    return [D, HID, BOT, PROTO]
