import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Attention entry of a statically quantised fp8 model (Qwen2.5-7B sizes): RMSNorm, activation to e4m3 with a
    calibrated scale, three e4m3 weights with a scale per tensor, biases, rotary embedding, and keys and values written
    as e4m3 cache entries with their own scales, keys laid out with features before positions."""

    def __init__(self, dim, heads, kv_heads, head_dim):
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = heads, kv_heads, head_dim
        self.gain = nn.Parameter((1 + 0.1 * torch.randn(dim)).to(torch.bfloat16))
        for name, out in (("q", heads * head_dim), ("k", kv_heads * head_dim), ("v", kv_heads * head_dim)):
            w = torch.randn(out, dim) / dim ** 0.5
            scale = w.abs().amax() / 448.0
            self.register_buffer("w_" + name, (w / scale).to(torch.float8_e4m3fn))
            self.register_buffer("s_" + name, scale)
            self.register_buffer("b_" + name, (0.3 * torch.randn(out)).to(torch.bfloat16))
        self.register_buffer("s_x", torch.tensor(6.0 / 448.0))
        self.register_buffer("k_cache_scale", torch.tensor(8.0 / 448.0))
        self.register_buffer("v_cache_scale", torch.tensor(7.0 / 448.0))

    def linear(self, xq, w, s, b):
        return (xq.float() @ w.float().t() * (self.s_x * s)).to(torch.bfloat16) + b

    def rotate(self, x, cos, sin):
        a, b = x.chunk(2, dim=-1)
        return x * cos + torch.cat((-b, a), dim=-1) * sin

    def to_fp8(self, x, scale):
        return (x.float() / scale).clamp(-448.0, 448.0).to(torch.float8_e4m3fn)

    def forward(self, x, cos, sin):
        batch, seq, _ = x.shape
        n = F.rms_norm(x.float(), (x.shape[-1],), eps=1e-6) * self.gain.float()
        xq = self.to_fp8(n, self.s_x)
        q = self.linear(xq, self.w_q, self.s_q, self.b_q).view(batch, seq, self.heads, self.head_dim).transpose(1, 2)
        k = self.linear(xq, self.w_k, self.s_k, self.b_k).view(batch, seq, self.kv_heads, self.head_dim).transpose(1, 2)
        v = self.linear(xq, self.w_v, self.s_v, self.b_v).view(batch, seq, self.kv_heads, self.head_dim).transpose(1, 2)
        q = self.rotate(q, cos, sin)
        k = self.rotate(k, cos, sin)
        k8 = self.to_fp8(k.transpose(-1, -2), self.k_cache_scale).contiguous()
        v8 = self.to_fp8(v, self.v_cache_scale).contiguous()
        return q.contiguous(), k8, v8


BATCH, SEQ, DIM, HEADS, KV_HEADS, HEAD_DIM = 3, 400, 3584, 28, 4, 128


def get_inputs():
    angle = torch.arange(SEQ)[:, None] * 1000000.0 ** (-torch.arange(0, HEAD_DIM, 2) / HEAD_DIM)
    angle = torch.cat((angle, angle), dim=-1)
    bf = torch.bfloat16
    return [torch.randn(BATCH, SEQ, DIM).to(bf), angle.cos().to(bf), angle.sin().to(bf)]


def get_init_inputs():
    return [DIM, HEADS, KV_HEADS, HEAD_DIM]
