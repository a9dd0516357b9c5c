import torch
import torch.nn as nn


def rms(x, w, eps=1e-6):
    xf = x.float()
    return w * (xf * torch.rsqrt(xf.pow(2).mean(-1, keepdim=True) + eps)).to(x.dtype)


def rotate(x, cos, sin):
    x1, x2 = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-x2, x1), dim=-1) * sin


class Model(nn.Module):
    def __init__(self, q_rank, kv_rank, heads, nope, rope):
        super().__init__()
        self.heads, self.nope, self.rope, self.kv_rank = heads, nope, rope, kv_rank
        self.q_a_norm = nn.Parameter(torch.ones(q_rank, dtype=torch.bfloat16))
        self.kv_a_norm = nn.Parameter(torch.ones(kv_rank, dtype=torch.bfloat16))
        self.q_b_proj = nn.Linear(q_rank, heads * (nope + rope), bias=False, dtype=torch.bfloat16)
        self.w_kc = nn.Parameter((torch.randn(heads, nope, kv_rank) * nope ** -0.5).to(torch.bfloat16))

    def forward(self, q_a, kv_a, cos, sin):
        q = self.q_b_proj(rms(q_a, self.q_a_norm)).view(-1, self.heads, self.nope + self.rope)
        q_nope, q_pe = q.split([self.nope, self.rope], dim=-1)
        q_abs = torch.bmm(q_nope.transpose(0, 1), self.w_kc).transpose(0, 1)
        q_pe = rotate(q_pe, cos[:, None], sin[:, None])
        latent, k_pe = kv_a.split([self.kv_rank, self.rope], dim=-1)
        k = torch.cat([rms(latent, self.kv_a_norm), rotate(k_pe, cos, sin)], dim=-1)
        return torch.cat([q_abs, q_pe], dim=-1), k


def get_inputs():
    ang = torch.rand(32, 32) * 6.28
    ang = torch.cat([ang, ang], dim=-1)
    return [
        torch.randn(32, 1536, dtype=torch.bfloat16),
        torch.randn(32, 576, dtype=torch.bfloat16),
        ang.cos().to(torch.bfloat16),
        ang.sin().to(torch.bfloat16),
    ]


def get_init_inputs():
    return [1536, 512, 128, 128, 64]
