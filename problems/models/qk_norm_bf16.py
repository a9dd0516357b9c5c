"""RMS norms over the heads of queries and of the fewer keys, each with its weight.

input q: bf16[T, H, D] ~ normal
input k: bf16[T, K, D] ~ normal
param wq: bf16[D] ~ normal(1, 0.1)
param wk: bf16[D] ~ normal(1, 0.1)
sq: f32[t: T, h: H] = sum[d: D](f32(q[t, h, d]) * f32(q[t, h, d]))
sk: f32[t: T, h: K] = sum[d: D](f32(k[t, h, d]) * f32(k[t, h, d]))
qn: bf16[t: T, h: H, d: D] = bf16(f32(q[t, h, d]) * rsqrt(sq[t, h] / D + 1e-6) * f32(wq[d]))
kn: bf16[t: T, h: K, d: D] = bf16(f32(k[t, h, d]) * rsqrt(sk[t, h] / D + 1e-6) * f32(wk[d]))
output qn, kn
"""
import torch

WORKLOADS = {
    "small": {"T": 20, "H": 8, "K": 2, "D": 128},
    "middle": {"T": 488, "H": 32, "K": 8, "D": 128},
    "large": {"T": 24576, "H": 32, "K": 8, "D": 128},
}


class Model(torch.nn.Module):
    def __init__(self, D):
        super().__init__()
        self.wq = torch.nn.Parameter((1 + 0.1 * torch.randn(D)).bfloat16())
        self.wk = torch.nn.Parameter((1 + 0.1 * torch.randn(D)).bfloat16())

    def norm(self, x, weight):
        f = x.float()
        return (f * torch.rsqrt(f.pow(2).mean(-1, keepdim=True) + 1e-6) * weight.float()).to(x.dtype)

    def forward(self, q, k):
        return self.norm(q, self.wq), self.norm(k, self.wk)


def get_inputs(T=488, H=32, K=8, D=128):
    return [torch.randn(T, H, D, dtype=torch.bfloat16), torch.randn(T, K, D, dtype=torch.bfloat16)]


def get_init_inputs(T=488, H=32, K=8, D=128):
    return [D]
