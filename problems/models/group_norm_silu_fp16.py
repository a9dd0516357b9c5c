"""A group norm over an image's groups of channels, then SiLU, as in a diffusion U-net.

input x: f16[N, G, K, P] ~ normal
param weight: f16[G, K] ~ normal(1, 0.1)
param bias: f16[G, K] ~ normal(0, 0.1)
s: f32[n: N, g: G] = sum[k: K, p: P](f32(x[n, g, k, p]))
q: f32[n: N, g: G] = sum[k: K, p: P]((f32(x[n, g, k, p]) - s[n, g] / (K * P)) * (f32(x[n, g, k, p]) - s[n, g] / (K * P)))
z: f32[n: N, g: G, k: K, p: P] = (f32(x[n, g, k, p]) - s[n, g] / (K * P)) * rsqrt(q[n, g] / (K * P) + 1e-5) * f32(weight[g, k]) + f32(bias[g, k])
y: f16[n: N, g: G, k: K, p: P] = f16(z[n, g, k, p] / (1 + exp(-z[n, g, k, p])))
output y
"""
import torch
import torch.nn.functional as F

WORKLOADS = {
    "small": {"N": 2, "G": 8, "K": 12, "P": 128},
    "middle": {"N": 2, "G": 32, "K": 10, "P": 4096},
    "large": {"N": 12, "G": 32, "K": 20, "P": 16384},
}


class Model(torch.nn.Module):
    def __init__(self, G, K):
        super().__init__()
        self.weight = torch.nn.Parameter((1 + 0.1 * torch.randn(G, K)).half())
        self.bias = torch.nn.Parameter((0.1 * torch.randn(G, K)).half())

    def forward(self, x):
        N, G, K, P = x.shape
        y = F.group_norm(x.view(N, G * K, P), G, self.weight.view(-1), self.bias.view(-1), 1e-5)
        return F.silu(y.float()).half().view(N, G, K, P)


def get_inputs(N=2, G=32, K=10, P=4096):
    return [torch.randn(N, G, K, P, dtype=torch.float16)]


def get_init_inputs(N=2, G=32, K=10, P=4096):
    return [G, K]
