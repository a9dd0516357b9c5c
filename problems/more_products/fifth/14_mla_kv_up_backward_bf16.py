import math
import torch
import torch.nn as nn

TOKENS, HEADS, LORA, NOPE, ROPE, V_DIM = 1000, 128, 512, 128, 64, 128


class Model(nn.Module):
    """DeepSeek-V3 MLA backward of the KV up-projection: from dK and dV to the latent (through its RMSNorm), the shared rotary key, and the weights."""

    def __init__(self, heads, lora, nope, rope, v_dim):
        super().__init__()
        self.heads, self.lora, self.nope, self.rope, self.v_dim = heads, lora, nope, rope, v_dim
        self.norm_weight = nn.Parameter(1.0 + 0.1 * torch.randn(lora))
        self.kv_b = nn.Parameter(torch.randn(heads * (nope + v_dim), lora) / math.sqrt(lora))
        self.to(torch.bfloat16)

    def forward(self, latent, cos, sin, dk, dv):
        t = latent.shape[0]
        c = latent[:, : self.lora].float()
        rstd = torch.rsqrt(c.pow(2).mean(-1, keepdim=True) + 1e-6)
        chat = c * rstd
        w = self.norm_weight.float()
        cn = (chat * w).to(latent.dtype)

        dkv = torch.cat([dk[..., : self.nope], dv], dim=-1).reshape(t, -1)
        d_kv_b = dkv.t() @ cn
        dcn = (dkv @ self.kv_b).float()
        d_norm = (dcn * chat).sum(0)
        dcw = dcn * w
        d_c = rstd * (dcw - chat * (dcw * chat).mean(-1, keepdim=True))

        d_rot = dk[..., self.nope :].float().sum(1).view(t, -1, 2)
        d0, d1 = d_rot[..., 0], d_rot[..., 1]
        d_pe = torch.stack([d0 * cos + d1 * sin, d1 * cos - d0 * sin], dim=-1).view(t, -1)
        d_latent = torch.cat([d_c, d_pe], dim=-1).to(latent.dtype)
        return d_latent, d_kv_b, d_norm.to(latent.dtype)


def get_inputs():
    half = ROPE // 2
    ang = torch.arange(TOKENS, dtype=torch.float32)[:, None] * 10000.0 ** (-torch.arange(half) / half)
    return [
        torch.randn(TOKENS, LORA + ROPE, dtype=torch.bfloat16),
        torch.cos(ang),
        torch.sin(ang),
        0.1 * torch.randn(TOKENS, HEADS, NOPE + ROPE, dtype=torch.bfloat16),
        0.1 * torch.randn(TOKENS, HEADS, V_DIM, dtype=torch.bfloat16),
    ]


def get_init_inputs():
    return [HEADS, LORA, NOPE, ROPE, V_DIM]
