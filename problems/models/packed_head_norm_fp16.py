"""A layer norm over each head of the queries inside a packed tensor of queries, keys and values, laid out head by head.

input qkv: f16[B, S, 3, H, D] ~ normal
param weight: f16[D] ~ normal(1, 0.1)
s: f32[b: B, i: S, h: H] = sum[d: D](f32(qkv[b, i, 0, h, d]))
q: f32[b: B, i: S, h: H] = sum[d: D]((f32(qkv[b, i, 0, h, d]) - s[b, i, h] / D) * (f32(qkv[b, i, 0, h, d]) - s[b, i, h] / D))
y: f16[b: B, h: H, i: S, d: D] = f16((f32(qkv[b, i, 0, h, d]) - s[b, i, h] / D) * rsqrt(q[b, i, h] / D + 1e-5) * f32(weight[d]))
output y
"""
import torch
import torch.nn.functional as F

WORKLOADS = {
    "small": {"B": 2, "S": 49, "H": 4, "D": 64},
    "middle": {"B": 2, "S": 1221, "H": 16, "D": 64},
    "large": {"B": 8, "S": 7680, "H": 32, "D": 64},
}


class Model(torch.nn.Module):
    def __init__(self, D):
        super().__init__()
        self.weight = torch.nn.Parameter((1 + 0.1 * torch.randn(D)).half())

    def forward(self, qkv):
        q = qkv[:, :, 0].transpose(1, 2)
        return F.layer_norm(q, (q.shape[-1],), self.weight, None, 1e-5)


def get_inputs(B=2, S=1221, H=16, D=64):
    return [torch.randn(B, S, 3, H, D, dtype=torch.float16)]


def get_init_inputs(B=2, S=1221, H=16, D=64):
    return [D]
