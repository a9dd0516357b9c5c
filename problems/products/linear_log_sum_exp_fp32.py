"""Class logits' log-sum-exp, largest and mean, for energy scores, as in ResNet-50, ViT and ConvNeXt (21k classes)."""
import torch
import torch.nn.functional as F

WORKLOADS = {
    "small": {"B": 128, "C": 2048, "V": 1000},
    "middle": {"B": 512, "C": 768, "V": 21843},
    "large": {"B": 2048, "C": 1536, "V": 21841},
}


class Model(torch.nn.Module):
    def __init__(self, C, V):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(V, C) * C ** -0.5)
        self.bias = torch.nn.Parameter(0.1 * torch.randn(V))

    def forward(self, x):
        logits = F.linear(x, self.weight, self.bias)
        return torch.logsumexp(logits, -1), logits.amax(-1), logits.mean(-1)


def get_inputs(B=128, C=2048, V=1000):
    return [torch.randn(B, C)]


def get_init_inputs(B=128, C=2048, V=1000):
    return [C, V]
