import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """One decoding step for eight sequences: RMSNorm, q/k/v projections, rotary at each row's position, new key and value appended to the cache."""

    def __init__(self, hidden, n_q, n_kv, hd):
        super().__init__()
        self.n_q, self.n_kv, self.hd, self.hidden = n_q, n_kv, hd, hidden
        self.norm = nn.Parameter(1.0 + 0.1 * torch.randn(hidden))
        self.q_proj = nn.Linear(hidden, n_q * hd, bias=False)
        self.k_proj = nn.Linear(hidden, n_kv * hd, bias=False)
        self.v_proj = nn.Linear(hidden, n_kv * hd, bias=False)
        self.half()

    def rope(self, t, cos, sin):
        lo, hi = t[..., : self.hd // 2], t[..., self.hd // 2:]
        return torch.cat((lo * cos - hi * sin, hi * cos + lo * sin), dim=-1)

    def forward(self, x, cos, sin, k_cache, v_cache):
        b = x.shape[0]
        n = F.rms_norm(x, (self.hidden,), self.norm, 1e-5)
        q = self.q_proj(n).view(b, self.n_q, 1, self.hd)
        k = self.k_proj(n).view(b, self.n_kv, 1, self.hd)
        v = self.v_proj(n).view(b, self.n_kv, 1, self.hd)
        c, s = cos[:, None, None, :], sin[:, None, None, :]
        q = self.rope(q, c, s) * self.hd ** -0.5
        k = self.rope(k, c, s)
        return q, torch.cat((k_cache, k), dim=2), torch.cat((v_cache, v), dim=2)


B, HID, NQ, NKV, HD, PAST = 8, 2048, 32, 8, 64, 511


def get_inputs():
    h = torch.float16
    freq = 500000.0 ** (-torch.arange(0, HD, 2).float() / HD)
    ang = torch.arange(400, 400 + 14 * B, 14).float()[:, None] * freq
    return [
        torch.randn(B, HID).to(h),
        ang.cos().to(h),
        ang.sin().to(h),
        torch.randn(B, NKV, PAST, HD).to(h),
        torch.randn(B, NKV, PAST, HD).to(h),
    ]


def get_init_inputs():
    return [HID, NQ, NKV, HD]
