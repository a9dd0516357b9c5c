"""A sampler's step: guidance of two predictions, a step along them, and the noise of the next time.

input x: f32[N, C, P] ~ normal
input with_prompt: bf16[N, C, P] ~ normal
input without: bf16[N, C, P] ~ normal
input noise: bf16[N, C, P] ~ normal
input sigma: f32[N] ~ uniform(0.5, 1)
e: f32[n: N, c: C, p: P] = f32(without[n, c, p]) + 7.5 * (f32(with_prompt[n, c, p]) - f32(without[n, c, p]))
y: f32[n: N, c: C, p: P] = x[n, c, p] - 0.1 * sigma[n] * e[n, c, p] + 0.05 * sigma[n] * f32(noise[n, c, p])
output y
"""
import torch

WORKLOADS = {
    "small": {"N": 2, "C": 4, "P": 850},
    "middle": {"N": 4, "C": 16, "P": 11000},
    "large": {"N": 8, "C": 16, "P": 272000},
}


class Model(torch.nn.Module):
    def forward(self, x, with_prompt, without, noise, sigma):
        e = without.float() + 7.5 * (with_prompt.float() - without.float())
        sigma = sigma[:, None, None]
        return x - 0.1 * sigma * e + 0.05 * sigma * noise.float()


def get_inputs(N=4, C=16, P=11000):
    return [torch.randn(N, C, P), *(torch.randn(N, C, P, dtype=torch.bfloat16) for _ in range(3)), torch.rand(N) / 2 + 0.5]
