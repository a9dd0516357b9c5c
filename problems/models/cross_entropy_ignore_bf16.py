"""The mean cross entropy of the tokens that count.

input logits: bf16[T, V] ~ normal(0, 2)
input target: i64[T] ~ integers(-1, 1000)
m: f32[t: T] = max[v: V](f32(logits[t, v]))
s: f32[t: T] = sum[v: V](exp(f32(logits[t, v]) - m[t]))
l: f32[t: T] = select(target[t] < 0, 0, log(s[t]) + m[t] - f32(logits[t, target[t]]))
total: f32[] = sum[t: T](l[t])
n: i64[] = sum[t: T](i64(target[t] >= 0))
loss: f32[] = total[] / f32(n[])
output loss
"""
import torch
import torch.nn.functional as F

WORKLOADS = {
    "small": {"T": 50, "V": 1000},
    "middle": {"T": 156, "V": 32000},
    "large": {"T": 1950, "V": 128256},
}


class Model(torch.nn.Module):
    def forward(self, logits, target):
        return F.cross_entropy(logits.float(), target, ignore_index=-1)


def get_inputs(T=156, V=32000):
    return [2 * torch.randn(T, V, dtype=torch.bfloat16), torch.randint(-1, 1000, (T,))]
