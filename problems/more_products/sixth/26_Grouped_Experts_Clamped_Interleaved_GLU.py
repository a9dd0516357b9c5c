import torch
import torch.nn as nn


class Model(nn.Module):
    """Capacity-batched experts with interleaved gate/up columns, clamps, biased GLU, per-row routing weight."""

    def __init__(self, experts, dim, inter, alpha, limit):
        super().__init__()
        bf = torch.bfloat16
        self.alpha, self.limit = alpha, limit
        self.gate_up = nn.Parameter((2 * torch.randn(experts, dim, 2 * inter) / dim ** 0.5).to(bf))
        self.gate_up_bias = nn.Parameter((0.2 * torch.randn(experts, 2 * inter)).to(bf))
        self.down = nn.Parameter((torch.randn(experts, inter, dim) / inter ** 0.5).to(bf))
        self.down_bias = nn.Parameter((0.2 * torch.randn(experts, dim)).to(bf))

    def forward(self, x, route):
        gu = torch.bmm(x, self.gate_up) + self.gate_up_bias[:, None, :]
        gate, up = gu[..., ::2], gu[..., 1::2]
        gate = gate.clamp(max=self.limit)
        up = up.clamp(min=-self.limit, max=self.limit)
        h = (up + 1) * (gate * torch.sigmoid(gate * self.alpha))
        y = torch.bmm(h, self.down) + self.down_bias[:, None, :]
        return y * route.unsqueeze(-1)


def get_inputs():
    return [torch.randn(8, 100, 1440).to(torch.bfloat16), torch.rand(8, 100).to(torch.bfloat16)]


def get_init_inputs():
    return [8, 1440, 1440, 1.702, 4.0]
