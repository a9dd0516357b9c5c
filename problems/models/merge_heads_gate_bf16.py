"""Attention's heads back side by side, with a gate for each element.

input x: bf16[B, H, S, D] ~ normal
input gate: bf16[B, S, H * D] ~ normal
y: bf16[b: B, s: S, c: H * D] = bf16(f32(x[b, c / D, s, c % D]) / (1 + exp(-f32(gate[b, s, c]))))
output y
"""
import torch

WORKLOADS = {
    "small": {"B": 2, "H": 4, "S": 33, "D": 64},
    "middle": {"B": 2, "H": 32, "S": 204, "D": 128},
    "large": {"B": 4, "H": 32, "S": 5120, "D": 128},
}


class Model(torch.nn.Module):
    def forward(self, x, gate):
        return (x.transpose(1, 2).flatten(2).float() * torch.sigmoid(gate.float())).to(x.dtype)


def get_inputs(B=2, H=32, S=204, D=128):
    return [torch.randn(B, H, S, D, dtype=torch.bfloat16), torch.randn(B, S, H * D, dtype=torch.bfloat16)]
