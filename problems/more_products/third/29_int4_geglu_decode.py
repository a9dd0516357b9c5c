import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS, HIDDEN, INTER, GROUP = 16, 3584, 14336, 128


def unpack(p):
    """(n, k/2) bytes -> (n, k) values 0..15, low nibble first."""
    return torch.stack((p & 15, p >> 4), dim=-1).flatten(1)


class Model(nn.Module):
    """Gemma-2-9B MLP sub-block for 16 decoded rows with 4-bit weights: RMSNorm (1+w), gate/up in AWQ form
    (groups of 128 with zero points), tanh-GELU gate, symmetric 4-bit down projection, post norm, residual."""

    def __init__(self, hidden: int, inter: int, group: int):
        super().__init__()
        self.group = group

        def frozen(t):
            return nn.Parameter(t, requires_grad=False)

        self.gu_q = frozen(torch.randint(0, 256, (2 * inter, hidden // 2), dtype=torch.uint8))
        self.gu_zero = frozen(torch.randint(6, 10, (2 * inter, hidden // group), dtype=torch.uint8))
        self.gu_scale = frozen(((0.5 + torch.rand(2 * inter, hidden // group)) * 0.2 * hidden ** -0.5).half())
        self.dn_q = frozen(torch.randint(0, 256, (hidden, inter // 2), dtype=torch.uint8))
        self.dn_scale = frozen(((0.5 + torch.rand(hidden, inter // group)) * 0.2 * inter ** -0.5).half())
        self.pre = nn.Parameter((0.1 * torch.randn(hidden)).half())
        self.post = nn.Parameter((0.1 * torch.randn(hidden)).half())

    def norm(self, x, w):
        xf = x.float()
        xf = xf * torch.rsqrt(xf.square().mean(-1, keepdim=True) + 1e-6)
        return (xf * (1.0 + w.float())).half()

    def forward(self, x):
        n, k2 = self.gu_q.shape
        w = unpack(self.gu_q).view(n, -1, self.group).half() - self.gu_zero.unsqueeze(-1).half()
        w = (w * self.gu_scale.unsqueeze(-1)).view(n, 2 * k2)
        gate, up = F.linear(self.norm(x, self.pre), w).chunk(2, dim=-1)
        h = F.gelu(gate, approximate="tanh") * up
        m, j2 = self.dn_q.shape
        wd = (unpack(self.dn_q).to(torch.int8) - 8).view(m, -1, self.group).half()
        wd = (wd * self.dn_scale.unsqueeze(-1)).view(m, 2 * j2)
        return x + self.norm(F.linear(h, wd), self.post)


def get_inputs():
    return [torch.randn(ROWS, HIDDEN).half()]


def get_init_inputs():
    return [HIDDEN, INTER, GROUP]
