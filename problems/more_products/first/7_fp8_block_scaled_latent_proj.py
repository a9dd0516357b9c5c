import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, hidden, q_rank, kv_rank, rope_dim, eps):
        super().__init__()
        n = q_rank + kv_rank + rope_dim
        self.sizes = [q_rank, kv_rank, rope_dim]
        self.eps = eps
        self.register_buffer("w", torch.randn(n, hidden).to(torch.float8_e4m3fn))
        s = (0.5 + torch.rand((n + 127) // 128, hidden // 128)) / hidden**0.5
        self.register_buffer("w_scale", s)
        self.q_gain = nn.Parameter((1 + 0.1 * torch.randn(q_rank)).bfloat16())
        self.kv_gain = nn.Parameter((1 + 0.1 * torch.randn(kv_rank)).bfloat16())

    def forward(self, x):
        n, k = self.w.shape
        s = self.w_scale.repeat_interleave(128, dim=0)[:n].repeat_interleave(128, dim=1)
        w = (self.w.float() * s).to(x.dtype)
        q, kv, k_rope = F.linear(x, w).split(self.sizes, dim=-1)
        q = F.rms_norm(q, (self.sizes[0],), self.q_gain, self.eps)
        kv = F.rms_norm(kv, (self.sizes[1],), self.kv_gain, self.eps)
        return q, torch.cat((kv, k_rope), dim=-1)


def get_inputs():
    return [torch.randn(8, 7168, dtype=torch.bfloat16)]


def get_init_inputs():
    return [7168, 1536, 512, 64, 1e-6]
