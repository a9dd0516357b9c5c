"""The mean squared error of a denoiser over the frames that count.

input prediction: bf16[B, T, C] ~ normal
input noise: bf16[B, T, C] ~ normal
input keep: bool[B, T] ~ integers(0, 4)
s: f32[] = sum[b: B, t: T, c: C](select(keep[b, t], (f32(prediction[b, t, c]) - f32(noise[b, t, c])) * (f32(prediction[b, t, c]) - f32(noise[b, t, c])), 0))
n: i64[] = sum[b: B, t: T](i64(keep[b, t]))
loss: f32[] = s[] / (f32(max(n[], 1)) * C)
output loss
"""
import torch

WORKLOADS = {
    "small": {"B": 2, "T": 64, "C": 200},
    "middle": {"B": 8, "T": 390, "C": 800},
    "large": {"B": 32, "T": 4880, "C": 800},
}


class Model(torch.nn.Module):
    def forward(self, prediction, noise, keep):
        difference = (prediction.float() - noise.float()).pow(2) * keep[..., None].float()
        return difference.sum() / (keep.sum().clamp(min=1).float() * prediction.shape[-1])


def get_inputs(B=8, T=390, C=800):
    return [torch.randn(B, T, C, dtype=torch.bfloat16), torch.randn(B, T, C, dtype=torch.bfloat16),
            torch.randint(0, 4, (B, T)) > 0]
