import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 4
MAX_POS = 4096


def rms(x, w, eps):
    xf = x.float()
    xf = xf * torch.rsqrt(xf.square().mean(-1, keepdim=True) + eps)
    return (xf * w.float()).to(x.dtype)


def rotate_half(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


class Model(nn.Module):
    """Qwen3-14B attention entry for 4 decoded rows: RMSNorm, fused QKV, per-head q/k norm, rotary, head split."""

    def __init__(self, hidden: int, n_q: int, n_kv: int, head_dim: int, theta: float):
        super().__init__()
        self.n_q, self.n_kv, self.head_dim = n_q, n_kv, head_dim
        self.eps = 1e-6
        self.in_norm = nn.Parameter(torch.rand(hidden, dtype=torch.bfloat16) + 0.5)
        self.q_norm = nn.Parameter(torch.rand(head_dim, dtype=torch.bfloat16) + 0.5)
        self.k_norm = nn.Parameter(torch.rand(head_dim, dtype=torch.bfloat16) + 0.5)
        self.qkv_weight = nn.Parameter(
            torch.randn((n_q + 2 * n_kv) * head_dim, hidden, dtype=torch.bfloat16) * hidden ** -0.5
        )
        inv = theta ** (-torch.arange(0, head_dim, 2).float() / head_dim)
        ang = torch.outer(torch.arange(MAX_POS).float(), inv)
        ang = torch.cat((ang, ang), dim=-1)
        self.register_buffer("cos", ang.cos())
        self.register_buffer("sin", ang.sin())

    def forward(self, x, positions):
        b, s, _ = x.shape
        qkv = F.linear(rms(x, self.in_norm, self.eps), self.qkv_weight)
        qkv = qkv.view(b, s, self.n_q + 2 * self.n_kv, self.head_dim)
        q, k, v = qkv.split((self.n_q, self.n_kv, self.n_kv), dim=2)
        q = rms(q, self.q_norm, self.eps)
        k = rms(k, self.k_norm, self.eps)
        cos = self.cos[positions].unsqueeze(2).to(x.dtype)
        sin = self.sin[positions].unsqueeze(2).to(x.dtype)
        q = q * cos + rotate_half(q) * sin
        k = k * cos + rotate_half(k) * sin
        return (
            q.transpose(1, 2).contiguous(),
            k.transpose(1, 2).contiguous(),
            v.transpose(1, 2).contiguous(),
        )


def get_inputs():
    return [
        torch.randn(BATCH, 1, 5120, dtype=torch.bfloat16),
        torch.randint(0, MAX_POS, (BATCH, 1)),
    ]


def get_init_inputs():
    return [5120, 40, 8, 128, 1000000.0]
