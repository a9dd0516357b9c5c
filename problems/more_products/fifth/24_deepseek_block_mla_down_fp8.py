import math
import torch
import torch.nn as nn

ROWS, DIM, Q_LORA, KV_LORA, ROPE, BLOCK = 37, 7168, 1536, 512, 64, 128


class Model(nn.Module):
    """DeepSeek-V3 fused MLA down-projection: 1x128 fp8 activations, 128x128 block-scaled fp8 weight, RMSNorms of both latents, rotary key."""

    def __init__(self, dim, q_lora, kv_lora, rope):
        super().__init__()
        self.split = [q_lora, kv_lora, rope]
        out = sum(self.split)
        ob, ib = -(-out // BLOCK), dim // BLOCK
        w = torch.zeros(ob * BLOCK, dim)
        w[:out] = torch.randn(out, dim) / math.sqrt(dim)
        blocks = w.view(ob, BLOCK, ib, BLOCK)
        scale = blocks.abs().amax(dim=(1, 3)) / 448.0
        wq = (blocks / scale[:, None, :, None]).reshape(ob * BLOCK, dim)[:out]
        self.register_buffer("weight", wq.to(torch.float8_e4m3fn))
        self.register_buffer("scale", scale)
        self.register_buffer("q_norm", (1.0 + 0.1 * torch.randn(q_lora)).to(torch.bfloat16))
        self.register_buffer("kv_norm", (1.0 + 0.1 * torch.randn(kv_lora)).to(torch.bfloat16))

    def rms(self, x, w):
        return (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w.float()).to(torch.bfloat16)

    def forward(self, x, cos, sin):
        t, d = x.shape
        groups = x.float().view(t, -1, BLOCK)
        xs = groups.abs().amax(-1, keepdim=True).clamp(min=1e-4) / 448.0
        xq = (groups / xs).to(torch.float8_e4m3fn)
        xd = (xq.to(torch.float32) * xs).view(t, d)
        ws = self.scale.repeat_interleave(BLOCK, 0)[: self.weight.shape[0]].repeat_interleave(BLOCK, 1)
        wd = self.weight.to(torch.float32) * ws
        q, kv, pe = (xd @ wd.t()).split(self.split, dim=-1)
        pe = pe.view(t, -1, 2)
        p0, p1 = pe[..., 0], pe[..., 1]
        pe = torch.stack([p0 * cos - p1 * sin, p0 * sin + p1 * cos], dim=-1).view(t, -1)
        return self.rms(q, self.q_norm), self.rms(kv, self.kv_norm), pe.to(torch.bfloat16)


def get_inputs():
    half = ROPE // 2
    ang = torch.randint(0, 4096, (ROWS, 1)).float() * 10000.0 ** (-torch.arange(half) / half)
    return [torch.randn(ROWS, DIM, dtype=torch.bfloat16), torch.cos(ang), torch.sin(ang)]


def get_init_inputs():
    return [DIM, Q_LORA, KV_LORA, ROPE]
