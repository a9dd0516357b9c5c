"""Gradients of SwiGLU's gate and of what it gates.

input dy: bf16[R, C] ~ normal
input gate: bf16[R, C] ~ normal
input up: bf16[R, C] ~ normal
s: f32[r: R, c: C] = 1 / (1 + exp(-f32(gate[r, c])))
dgate: bf16[r: R, c: C] = bf16(f32(dy[r, c]) * f32(up[r, c]) * s[r, c] * (1 + f32(gate[r, c]) * (1 - s[r, c])))
dup: bf16[r: R, c: C] = bf16(f32(dy[r, c]) * f32(gate[r, c]) * s[r, c])
output dgate, dup
"""
import torch

WORKLOADS = {
    "small": {"R": 4, "C": 2816},
    "middle": {"R": 176, "C": 5632},
    "large": {"R": 3488, "C": 14336},
}


class Model(torch.nn.Module):
    def forward(self, dy, gate, up):
        g, s = gate.float(), torch.sigmoid(gate.float())
        dgate = dy.float() * up.float() * s * (1 + g * (1 - s))
        return dgate.to(gate.dtype), (dy.float() * g * s).to(up.dtype)


def get_inputs(R=176, C=5632):
    return [torch.randn(R, C, dtype=torch.bfloat16) for _ in range(3)]
