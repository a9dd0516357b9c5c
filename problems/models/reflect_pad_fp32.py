"""A spectrogram's framing: sound padded by reflection and cut into frames that overlap, with a window on each.

input x: f32[N, L] ~ normal
input window: f32[4 * S] ~ uniform(0, 1)
p: f32[n: N, t: L + 4 * S] = x[n, L - 1 - abs(L - 1 - abs(t - 2 * S))]
y: f32[n: N, f: L / S + 1, i: 4 * S] = p[n, f * S + i] * window[i]
output y
"""
import torch
import torch.nn.functional as F

WORKLOADS = {
    "small": {"N": 2, "L": 2560, "S": 64},
    "middle": {"N": 4, "L": 120000, "S": 160},
    "large": {"N": 8, "L": 3072000, "S": 256},
}


class Model(torch.nn.Module):
    def forward(self, x, window):
        S = window.shape[0] // 4
        padded = F.pad(x[:, None], (2 * S, 2 * S), mode="reflect")[:, 0]
        return padded.unfold(-1, 4 * S, S) * window


def get_inputs(N=4, L=120000, S=160):
    return [torch.randn(N, L), torch.rand(4 * S)]
