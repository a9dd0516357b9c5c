"""Logarithms of the probabilities of a vocabulary at a temperature, and the entropy of each row.

input logits: f32[T, V] ~ normal(0, 2)
m: f32[t: T] = max[v: V](logits[t, v] / 0.7)
s: f32[t: T] = sum[v: V](exp(logits[t, v] / 0.7 - m[t]))
y: f32[t: T, v: V] = logits[t, v] / 0.7 - m[t] - log(s[t])
entropy: f32[t: T] = sum[v: V](-(exp(y[t, v]) * y[t, v]))
output y, entropy
"""
import torch
import torch.nn.functional as F

WORKLOADS = {
    "small": {"T": 12, "V": 1000},
    "middle": {"T": 39, "V": 32000},
    "large": {"T": 486, "V": 128256},
}


class Model(torch.nn.Module):
    def forward(self, logits):
        y = F.log_softmax(logits / 0.7, dim=-1)
        return y, -(y.exp() * y).sum(-1)


def get_inputs(T=39, V=32000):
    return [2 * torch.randn(T, V)]
