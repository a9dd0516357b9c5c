import torch
import torch.nn as nn


class Model(nn.Module):
    """Latent-attention decoding with absorbed up projections: low-rank query chain, per-head products, latent cache scores, output."""

    def __init__(self, dim, heads, q_rank, kv_rank, nope, rope, vdim):
        super().__init__()
        bf = torch.bfloat16
        self.h, self.nope, self.rope, self.kv_rank = heads, nope, rope, kv_rank
        self.q_a = nn.Linear(dim, q_rank, bias=False).to(bf)
        self.q_norm = nn.Parameter((1 + 0.1 * torch.randn(q_rank)).to(bf))
        self.q_b = nn.Linear(q_rank, heads * (nope + rope), bias=False).to(bf)
        self.w_uk = nn.Parameter((2.5 * torch.randn(heads, nope, kv_rank) / nope ** 0.5).to(bf))
        self.w_uv = nn.Parameter((3.0 * torch.randn(heads, kv_rank, vdim) / kv_rank ** 0.5).to(bf))
        self.o = nn.Linear(heads * vdim, dim, bias=False).to(bf)

    def forward(self, x, cache, cos, sin, lengths):
        B = x.shape[0]
        qa = self.q_a(x).float()
        qa = (qa * torch.rsqrt(qa.pow(2).mean(-1, keepdim=True) + 1e-6) * self.q_norm.float()).to(x.dtype)
        q = self.q_b(qa).view(B, self.h, self.nope + self.rope)
        qn, qp = q.split([self.nope, self.rope], dim=-1)
        e, o = qp.float()[..., 0::2], qp.float()[..., 1::2]
        c, s = cos.unsqueeze(1), sin.unsqueeze(1)
        qp = torch.stack((e * c - o * s, e * s + o * c), dim=-1).flatten(-2).to(x.dtype)
        ql = torch.einsum("bhd,hdc->bhc", qn, self.w_uk)
        qcat = torch.cat((ql, qp), dim=-1)
        scores = torch.bmm(qcat, cache.transpose(1, 2)).float() * (self.nope + self.rope) ** -0.5
        pos = torch.arange(cache.shape[1], device=x.device)
        scores = scores.masked_fill(pos.view(1, 1, -1) >= lengths.view(B, 1, 1), float("-inf"))
        p = torch.softmax(scores, dim=-1).to(x.dtype)
        ctx = torch.bmm(p, cache[..., : self.kv_rank])
        v = torch.einsum("bhc,hcv->bhv", ctx, self.w_uv)
        return self.o(v.reshape(B, -1))


B, L = 16, 1000


def get_inputs():
    ang = 6.28 * torch.rand(B, 32)
    return [
        torch.randn(B, 2048).to(torch.bfloat16),
        torch.randn(B, L, 576).to(torch.bfloat16),
        ang.cos(),
        ang.sin(),
        torch.randint(300, L + 1, (B,)),
    ]


def get_init_inputs():
    return [2048, 16, 1536, 512, 128, 64, 128]
