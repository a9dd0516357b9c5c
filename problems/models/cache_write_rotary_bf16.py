"""Keys turned by their angles and written with the values into their part of a cache.

input k: bf16[B, H, T, 2 * D] ~ normal
input v: bf16[B, H, T, 2 * D] ~ normal
input cos: f32[T, 2 * D] ~ uniform(-1, 1)
input sin: f32[T, 2 * D] ~ uniform(-1, 1)
state keys: bf16[B, H, S, 2 * D] ~ normal
state values: bf16[B, H, S, 2 * D] ~ normal
y: bf16[b: B, h: H, t: T, d: 2 * D] = bf16(f32(k[b, h, t, d]) * cos[t, d] + select(d < D, -f32(k[b, h, t, d + D]), f32(k[b, h, t, d - D])) * sin[t, d])
nk: bf16[b: B, h: H, s: S, d: 2 * D] = select(T <= s and s < 2 * T, y[b, h, s - T, d], keys[b, h, s, d])
nv: bf16[b: B, h: H, s: S, d: 2 * D] = select(T <= s and s < 2 * T, v[b, h, s - T, d], values[b, h, s, d])
output y
update keys = nk
update values = nv
"""
import torch

WORKLOADS = {
    "small": {"B": 2, "H": 2, "T": 5, "S": 20, "D": 64},
    "middle": {"B": 2, "H": 8, "T": 64, "S": 544, "D": 64},
    "large": {"B": 8, "H": 8, "T": 512, "S": 6900, "D": 64},
}


class Model(torch.nn.Module):
    def __init__(self, B, H, S, D):
        super().__init__()
        self.register_buffer("keys", torch.randn(B, H, S, 2 * D).bfloat16())
        self.register_buffer("values", torch.randn(B, H, S, 2 * D).bfloat16())

    def forward(self, k, v, cos, sin):
        T = k.shape[2]
        first, second = k.float().chunk(2, dim=-1)
        y = (k.float() * cos + torch.cat([-second, first], dim=-1) * sin).to(k.dtype)
        self.keys[:, :, T:2 * T] = y
        self.values[:, :, T:2 * T] = v
        return y


def get_inputs(B=2, H=8, T=64, S=544, D=64):
    return [torch.randn(B, H, T, 2 * D, dtype=torch.bfloat16), torch.randn(B, H, T, 2 * D, dtype=torch.bfloat16),
            torch.rand(T, 2 * D) * 2 - 1, torch.rand(T, 2 * D) * 2 - 1]


def get_init_inputs(B=2, H=8, T=64, S=544, D=64):
    return [B, H, S, D]
