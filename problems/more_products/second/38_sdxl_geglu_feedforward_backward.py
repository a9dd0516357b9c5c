import math
import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, dim, inner):
        super().__init__()
        self.proj = nn.Linear(dim, 2 * inner, dtype=torch.float16)
        self.out = nn.Linear(inner, dim, dtype=torch.float16)

    def forward(self, x, grad):
        h, gate = self.proj(x).chunk(2, dim=-1)
        d_inner = F.linear(grad, self.out.weight.t())
        gf = gate.float()
        cdf = 0.5 * (1.0 + torch.erf(gf * (1.0 / math.sqrt(2.0))))
        slope = cdf + gf * torch.exp(-0.5 * gf * gf) * (1.0 / math.sqrt(2.0 * math.pi))
        d_h = d_inner * (gf * cdf).to(x.dtype)
        d_gate = d_inner * h * slope.to(x.dtype)
        d_proj = torch.cat([d_h, d_gate], dim=-1)
        return F.linear(d_proj, self.proj.weight.t()) + grad


def get_inputs():
    return [
        torch.randn(2, 4096, 640, dtype=torch.float16),
        torch.randn(2, 4096, 640, dtype=torch.float16),
    ]


def get_init_inputs():
    return [640, 2560]
