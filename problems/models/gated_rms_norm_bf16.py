"""The norm of a state-space block: a gate by SiLU, then an RMS norm over groups of channels.

input x: bf16[T, G, D] ~ normal
input z: bf16[T, G, D] ~ normal
param weight: bf16[G, D] ~ normal(1, 0.1)
h: f32[t: T, g: G, d: D] = f32(x[t, g, d]) * (f32(z[t, g, d]) / (1 + exp(-f32(z[t, g, d]))))
s: f32[t: T, g: G] = sum[d: D](h[t, g, d] * h[t, g, d])
y: bf16[t: T, g: G, d: D] = bf16(h[t, g, d] * rsqrt(s[t, g] / D + 1e-5) * f32(weight[g, d]))
output y
"""
import torch
import torch.nn.functional as F

WORKLOADS = {
    "small": {"T": 8, "G": 4, "D": 512},
    "middle": {"T": 408, "G": 8, "D": 512},
    "large": {"T": 10240, "G": 8, "D": 1024},
}


class Model(torch.nn.Module):
    def __init__(self, G, D):
        super().__init__()
        self.weight = torch.nn.Parameter((1 + 0.1 * torch.randn(G, D)).bfloat16())

    def forward(self, x, z):
        h = x.float() * F.silu(z.float())
        y = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-5)
        return (y * self.weight.float()).to(x.dtype)


def get_inputs(T=408, G=8, D=512):
    return [torch.randn(T, G, D, dtype=torch.bfloat16), torch.randn(T, G, D, dtype=torch.bfloat16)]


def get_init_inputs(T=408, G=8, D=512):
    return [G, D]
