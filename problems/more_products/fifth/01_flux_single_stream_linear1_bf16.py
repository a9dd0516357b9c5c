import torch
import torch.nn as nn
import torch.nn.functional as F

TEXT, IMAGE, DIM, HEADS, MLP = 512, 1024, 3072, 24, 12288


class Model(nn.Module):
    """Flux single-stream block up to the attention: modulation, one fused QKV+MLP product, QK RMSNorm, rotation, GELU."""

    def __init__(self, dim, heads, mlp):
        super().__init__()
        self.dim, self.heads, self.mlp = dim, heads, mlp
        self.modulation = nn.Linear(dim, 3 * dim)
        self.linear1 = nn.Linear(dim, 3 * dim + mlp)
        self.query_scale = nn.Parameter(1.0 + 0.1 * torch.randn(dim // heads))
        self.key_scale = nn.Parameter(1.0 + 0.1 * torch.randn(dim // heads))
        self.to(torch.bfloat16)

    def rms(self, x, scale):
        xf = x.float()
        return (xf * torch.rsqrt(xf.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * scale

    def rotate(self, x, pe):
        xf = x.float().reshape(*x.shape[:-1], -1, 1, 2)
        out = pe[..., 0] * xf[..., 0] + pe[..., 1] * xf[..., 1]
        return out.reshape(x.shape).to(x.dtype)

    def forward(self, x, vec, pe):
        b, l, _ = x.shape
        shift, scale, gate = self.modulation(F.silu(vec))[:, None, :].chunk(3, dim=-1)
        x_mod = (1 + scale) * F.layer_norm(x, (self.dim,), eps=1e-6) + shift
        qkv, mlp = torch.split(self.linear1(x_mod), [3 * self.dim, self.mlp], dim=-1)
        q, k, v = qkv.view(b, l, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        q = self.rotate(self.rms(q, self.query_scale), pe)
        k = self.rotate(self.rms(k, self.key_scale), pe)
        return q, k, v.contiguous(), F.gelu(mlp, approximate="tanh"), gate


def get_inputs():
    half = DIM // HEADS // 2
    pos = torch.cat([torch.zeros(TEXT), torch.arange(IMAGE, dtype=torch.float32)])
    ang = pos[:, None] * 10000.0 ** (-torch.arange(half, dtype=torch.float32) / half)
    pe = torch.stack([torch.cos(ang), -torch.sin(ang), torch.sin(ang), torch.cos(ang)], dim=-1)
    pe = pe.reshape(1, 1, TEXT + IMAGE, half, 2, 2)
    return [
        torch.randn(1, TEXT + IMAGE, DIM, dtype=torch.bfloat16),
        torch.randn(1, DIM, dtype=torch.bfloat16),
        pe,
    ]


def get_init_inputs():
    return [DIM, HEADS, MLP]
