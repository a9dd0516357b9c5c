import torch
import torch.nn as nn


class Model(nn.Module):
    """fp8 activations (1x128 scales) times fp8 weights (128x128 scales), packed low-rank q/kv down projection,
    then RMSNorm of the two latents and the raw rope slice."""

    def __init__(self, hidden, q_rank, kv_rank, rope_dim):
        super().__init__()
        self.sizes = [q_rank, kv_rank, rope_dim]
        n = q_rank + kv_rank + rope_dim
        self.n = n
        self.register_buffer("w", torch.randn(n, hidden).to(torch.float8_e4m3fn))
        self.register_buffer("w_scale", (0.5 + torch.rand((n + 127) // 128, hidden // 128)) / hidden ** 0.5)
        self.q_norm = nn.Parameter((1 + 0.1 * torch.randn(q_rank)).to(torch.bfloat16))
        self.kv_norm = nn.Parameter((1 + 0.1 * torch.randn(kv_rank)).to(torch.bfloat16))

    def _rms(self, x, w):
        xf = x.float()
        return ((xf * torch.rsqrt(xf.pow(2).mean(-1, keepdim=True) + 1e-6)) * w.float()).to(torch.bfloat16)

    def forward(self, xq, x_scale):
        T, K = xq.shape
        x = (xq.float().view(T, K // 128, 128) * x_scale.unsqueeze(-1)).view(T, K).to(torch.bfloat16)
        s = self.w_scale.repeat_interleave(128, dim=0)[: self.n].repeat_interleave(128, dim=1)
        w = (self.w.float() * s).to(torch.bfloat16)
        y = x @ w.t()
        q, kv, pe = y.split(self.sizes, dim=-1)
        return self._rms(q, self.q_norm), self._rms(kv, self.kv_norm), pe


T, K = 320, 5120


def get_inputs():
    return [
        (2 * torch.randn(T, K)).to(torch.float8_e4m3fn),
        0.25 + 0.5 * torch.rand(T, K // 128),
    ]


def get_init_inputs():
    return [K, 1536, 512, 64]
