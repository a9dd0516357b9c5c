"""The divergence of a student's distribution from its teacher's, both at a temperature of two.

input student: f32[T, V] ~ normal(0, 2)
input teacher: f32[T, V] ~ normal(0, 2)
ms: f32[t: T] = max[v: V](student[t, v] / 2)
mt: f32[t: T] = max[v: V](teacher[t, v] / 2)
ss: f32[t: T] = sum[v: V](exp(student[t, v] / 2 - ms[t]))
st: f32[t: T] = sum[v: V](exp(teacher[t, v] / 2 - mt[t]))
l: f32[t: T] = sum[v: V](exp(teacher[t, v] / 2 - mt[t]) / st[t] * (teacher[t, v] / 2 - mt[t] - log(st[t]) - (student[t, v] / 2 - ms[t] - log(ss[t]))))
total: f32[] = sum[t: T](l[t])
loss: f32[] = total[] * 4 / T
output loss
"""
import torch
import torch.nn.functional as F

WORKLOADS = {
    "small": {"T": 12, "V": 1000},
    "middle": {"T": 39, "V": 32000},
    "large": {"T": 486, "V": 128256},
}


class Model(torch.nn.Module):
    def forward(self, student, teacher):
        s, t = F.log_softmax(student / 2, dim=-1), F.log_softmax(teacher / 2, dim=-1)
        return F.kl_div(s, t, log_target=True, reduction="batchmean") * 4


def get_inputs(T=39, V=32000):
    return [2 * torch.randn(T, V), 2 * torch.randn(T, V)]
