"""The mean over an image of each channel, and the gate of a squeeze-and-excite block put on all of it.

input x: f16[N, C, P] ~ normal
input gate: f16[N, C] ~ normal
s: f32[n: N, c: C] = sum[p: P](f32(x[n, c, p]))
mean: f16[n: N, c: C] = f16(s[n, c] / P)
y: f16[n: N, c: C, p: P] = f16(f32(x[n, c, p]) / (1 + exp(-f32(gate[n, c]))))
output mean, y
"""
import torch

WORKLOADS = {
    "small": {"N": 2, "C": 64, "P": 196},
    "middle": {"N": 8, "C": 256, "P": 1225},
    "large": {"N": 64, "C": 512, "P": 3844},
}


class Model(torch.nn.Module):
    def forward(self, x, gate):
        return x.float().mean(-1).half(), (x.float() * torch.sigmoid(gate.float())[..., None]).half()


def get_inputs(N=8, C=256, P=1225):
    return [torch.randn(N, C, P, dtype=torch.float16), torch.randn(N, C, dtype=torch.float16)]
