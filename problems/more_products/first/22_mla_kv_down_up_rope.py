import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, hidden, rank, rope, heads, nope, vdim):
        super().__init__()
        kw = dict(bias=False, dtype=torch.bfloat16)
        self.rank, self.rope, self.heads, self.nope, self.vdim = rank, rope, heads, nope, vdim
        self.down = nn.Linear(hidden, rank + rope, **kw)
        self.gain = nn.Parameter((1 + 0.1 * torch.randn(rank)).bfloat16())
        self.up = nn.Linear(rank, heads * (nope + vdim), **kw)

    def forward(self, x, cos, sin):
        t = x.shape[0]
        c, kr = self.down(x).split([self.rank, self.rope], dim=-1)
        c = F.rms_norm(c, (self.rank,), self.gain, 1e-6)
        kv = self.up(c).view(t, self.heads, self.nope + self.vdim)
        k_nope, v = kv.split([self.nope, self.vdim], dim=-1)
        a, b = kr.float().chunk(2, dim=-1)
        kr = torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1).to(x.dtype)
        k = torch.cat((k_nope, kr[:, None, :].expand(t, self.heads, self.rope)), dim=-1)
        return k.transpose(0, 1), v.transpose(0, 1), c


def get_inputs():
    t, r = 1537, 64
    inv = 1.0 / (10000.0 ** (torch.arange(0, r, 2).float() / r))
    ang = torch.arange(t).float()[:, None] * inv[None, :]
    return [torch.randn(t, 5120, dtype=torch.bfloat16), ang.cos(), ang.sin()]


def get_init_inputs():
    return [5120, 512, 64, 32, 128, 128]
