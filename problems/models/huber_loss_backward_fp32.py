"""The gradient of a Huber loss with weights, and the loss itself.

input x: f32[R, C] ~ normal(0, 2)
input target: f32[R, C] ~ normal
input weight: f32[R] ~ uniform(0, 1)
d: f32[r: R, c: C] = x[r, c] - target[r, c]
dx: f32[r: R, c: C] = weight[r] * min(max(d[r, c], -1), 1) / (R * C)
total: f32[] = sum[r: R, c: C](weight[r] * select(abs(d[r, c]) < 1, 0.5 * d[r, c] * d[r, c], abs(d[r, c]) - 0.5))
loss: f32[] = total[] / (R * C)
output loss, dx
"""
import torch
import torch.nn.functional as F

WORKLOADS = {
    "small": {"R": 64, "C": 128},
    "middle": {"R": 6496, "C": 128},
    "large": {"R": 325000, "C": 128},
}


class Model(torch.nn.Module):
    def forward(self, x, target, weight):
        count = x.numel()
        loss = F.huber_loss(x, target, reduction="none") * weight[:, None]
        return loss.sum() / count, weight[:, None] * (x - target).clamp(-1, 1) / count


def get_inputs(R=6496, C=128):
    return [2 * torch.randn(R, C), torch.randn(R, C), torch.rand(R)]
