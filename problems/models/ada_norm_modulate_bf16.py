"""The adaptive norm of a diffusion transformer: a layer norm without weights, scaled and shifted for each image.

input x: bf16[B, S, C] ~ normal
input modulation: bf16[B, 2 * C] ~ normal(0, 0.5)
s: f32[b: B, i: S] = sum[c: C](f32(x[b, i, c]))
q: f32[b: B, i: S] = sum[c: C]((f32(x[b, i, c]) - s[b, i] / C) * (f32(x[b, i, c]) - s[b, i] / C))
y: bf16[b: B, i: S, c: C] = bf16((f32(x[b, i, c]) - s[b, i] / C) * rsqrt(q[b, i] / C + 1e-6) * (1 + f32(modulation[b, c + C])) + f32(modulation[b, c]))
output y
"""
import torch
import torch.nn.functional as F

WORKLOADS = {
    "small": {"B": 2, "S": 16, "C": 768},
    "middle": {"B": 2, "S": 1024, "C": 1152},
    "large": {"B": 8, "S": 5120, "C": 3072},
}


class Model(torch.nn.Module):
    def forward(self, x, modulation):
        shift, scale = modulation.float().chunk(2, dim=-1)
        normed = F.layer_norm(x.float(), (x.shape[-1],), None, None, 1e-6)
        return (normed * (1 + scale[:, None]) + shift[:, None]).to(x.dtype)


def get_inputs(B=2, S=1024, C=1152):
    return [torch.randn(B, S, C, dtype=torch.bfloat16), 0.5 * torch.randn(B, 2 * C, dtype=torch.bfloat16)]
