"""A block's output, gated for each image, is added to its residual; then the next block's adaptive norm.

input residual: bf16[B, S, C] ~ normal
input x: bf16[B, S, C] ~ normal
input gate: bf16[B, C] ~ normal(0, 0.5)
input scale: bf16[B, C] ~ normal(0, 0.5)
h: bf16[b: B, i: S, c: C] = bf16(f32(residual[b, i, c]) + f32(gate[b, c]) * f32(x[b, i, c]))
s: f32[b: B, i: S] = sum[c: C](f32(h[b, i, c]) * f32(h[b, i, c]))
y: bf16[b: B, i: S, c: C] = bf16(f32(h[b, i, c]) * rsqrt(s[b, i] / C + 1e-6) * (1 + f32(scale[b, c])))
output h, y
"""
import torch

WORKLOADS = {
    "small": {"B": 2, "S": 9, "C": 640},
    "middle": {"B": 2, "S": 544, "C": 1152},
    "large": {"B": 8, "S": 2560, "C": 3072},
}


class Model(torch.nn.Module):
    def forward(self, residual, x, gate, scale):
        h = (residual.float() + gate[:, None].float() * x.float()).to(x.dtype)
        f = h.float()
        y = f * torch.rsqrt(f.pow(2).mean(-1, keepdim=True) + 1e-6) * (1 + scale[:, None].float())
        return h, y.to(x.dtype)


def get_inputs(B=2, S=544, C=1152):
    return [torch.randn(B, S, C, dtype=torch.bfloat16), torch.randn(B, S, C, dtype=torch.bfloat16),
            0.5 * torch.randn(B, C, dtype=torch.bfloat16), 0.5 * torch.randn(B, C, dtype=torch.bfloat16)]
