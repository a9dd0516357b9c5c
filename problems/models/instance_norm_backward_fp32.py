"""The gradient of an instance norm's input.

input dy: f32[N, C, P] ~ normal
input x: f32[N, C, P] ~ normal
param weight: f32[C] ~ normal(1, 0.1)
s: f32[n: N, c: C] = sum[p: P](x[n, c, p])
q: f32[n: N, c: C] = sum[p: P]((x[n, c, p] - s[n, c] / P) * (x[n, c, p] - s[n, c] / P))
rstd: f32[n: N, c: C] = rsqrt(q[n, c] / P + 1e-5)
a: f32[n: N, c: C] = sum[p: P](dy[n, c, p])
b: f32[n: N, c: C] = sum[p: P](dy[n, c, p] * ((x[n, c, p] - s[n, c] / P) * rstd[n, c]))
dx: f32[n: N, c: C, p: P] = weight[c] * rstd[n, c] * (dy[n, c, p] - a[n, c] / P - (x[n, c, p] - s[n, c] / P) * rstd[n, c] * (b[n, c] / P))
output dx
"""
import torch

WORKLOADS = {
    "small": {"N": 2, "C": 16, "P": 256},
    "middle": {"N": 4, "C": 64, "P": 3249},
    "large": {"N": 8, "C": 96, "P": 54756},
}


class Model(torch.nn.Module):
    def __init__(self, C):
        super().__init__()
        self.weight = torch.nn.Parameter(1 + 0.1 * torch.randn(C))

    def forward(self, dy, x):
        centred = x - x.mean(-1, keepdim=True)
        rstd = torch.rsqrt(centred.pow(2).mean(-1, keepdim=True) + 1e-5)
        normed = centred * rstd
        inner = dy - dy.mean(-1, keepdim=True) - normed * (dy * normed).mean(-1, keepdim=True)
        return self.weight[:, None] * rstd * inner


def get_inputs(N=4, C=64, P=3249):
    return [torch.randn(N, C, P), torch.randn(N, C, P)]


def get_init_inputs(N=4, C=64, P=3249):
    return [C]
