import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS, HIDDEN, Q_RANK, KV_RANK, HEADS, NOPE, ROPE, BLOCK = 64, 7168, 1536, 512, 128, 128, 64, 128


def block_dequant(w, s, block, dtype):
    full = s.repeat_interleave(block, dim=0)[: w.shape[0]]
    full = full.repeat_interleave(block, dim=1)[:, : w.shape[1]]
    return (w.float() * full).to(dtype)


def rms(x, w):
    xf = x.float()
    return (xf * torch.rsqrt(xf.square().mean(-1, keepdim=True) + 1e-6) * w.float()).to(x.dtype)


def rope_interleaved(x, cos, sin):
    xf = x.float()
    a, b = xf[..., 0::2], xf[..., 1::2]
    return torch.stack((a * cos - b * sin, a * sin + b * cos), dim=-1).flatten(-2).to(x.dtype)


class Model(nn.Module):
    """DeepSeek-V3 latent attention entry for 64 decoded rows with 128x128 block-scaled fp8 weights: fused
    down projection, latent norms, query up projection, interleaved rotary, absorbed key up projection per head."""

    def __init__(self, hidden: int, q_rank: int, kv_rank: int, heads: int, nope: int, rope: int, block: int):
        super().__init__()
        self.cfg = (q_rank, kv_rank, rope)
        self.heads, self.nope, self.rope, self.block = heads, nope, rope, block

        def make(n, k):
            w = nn.Parameter(torch.randn(n, k).to(torch.float8_e4m3fn), requires_grad=False)
            s = (0.5 + torch.rand(-(-n // block), -(-k // block))) * k ** -0.5
            return w, nn.Parameter(s, requires_grad=False)

        self.wa, self.sa = make(q_rank + kv_rank + rope, hidden)
        self.wqb, self.sqb = make(heads * (nope + rope), q_rank)
        self.w_uk = nn.Parameter(torch.randn(heads, nope, kv_rank, dtype=torch.bfloat16) * nope ** -0.5)
        self.q_norm = nn.Parameter(torch.rand(q_rank, dtype=torch.bfloat16) + 0.5)
        self.kv_norm = nn.Parameter(torch.rand(kv_rank, dtype=torch.bfloat16) + 0.5)

    def forward(self, x, cos, sin):
        a = F.linear(x, block_dequant(self.wa, self.sa, self.block, x.dtype))
        q_lat, kv_lat, k_pe = a.split(self.cfg, dim=-1)
        q = F.linear(rms(q_lat, self.q_norm), block_dequant(self.wqb, self.sqb, self.block, x.dtype))
        q_nope, q_pe = q.view(-1, self.heads, self.nope + self.rope).split((self.nope, self.rope), dim=-1)
        q_abs = torch.einsum("bhd,hdc->bhc", q_nope, self.w_uk)
        q_pe = rope_interleaved(q_pe, cos.unsqueeze(1), sin.unsqueeze(1))
        k_pe = rope_interleaved(k_pe, cos, sin)
        query = torch.cat((q_abs, q_pe), dim=-1)
        cache_entry = torch.cat((rms(kv_lat, self.kv_norm), k_pe), dim=-1)
        return query, cache_entry


def get_inputs():
    pos = torch.randint(0, 4000, (ROWS,)).float()
    inv = 10000.0 ** (-torch.arange(0, ROPE, 2).float() / ROPE)
    ang = torch.outer(pos, inv)
    return [torch.randn(ROWS, HIDDEN, dtype=torch.bfloat16), ang.cos(), ang.sin()]


def get_init_inputs():
    return [HIDDEN, Q_RANK, KV_RANK, HEADS, NOPE, ROPE, BLOCK]
