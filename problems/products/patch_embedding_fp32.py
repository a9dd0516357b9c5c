"""An image's patches as rows, a linear and the positions, as in ViT-B/16, CLIP ViT-L/14 and ViT-H/14."""
import torch
import torch.nn.functional as F

WORKLOADS = {
    "small": {"B": 8, "S": 224, "P": 16, "C": 768},
    "middle": {"B": 16, "S": 336, "P": 14, "C": 1024},
    "large": {"B": 128, "S": 224, "P": 14, "C": 1280},
}


class Model(torch.nn.Module):
    def __init__(self, S, P, C):
        super().__init__()
        self.side = S // P
        self.weight = torch.nn.Parameter(torch.randn(C, 3 * P * P) * (3 * P * P) ** -0.5)
        self.bias = torch.nn.Parameter(0.1 * torch.randn(C))
        self.positions = torch.nn.Parameter(0.1 * torch.randn(self.side ** 2, C))

    def forward(self, images):
        B, channels, S, _ = images.shape
        n, p = self.side, S // self.side
        patches = images.reshape(B, channels, n, p, n, p).permute(0, 2, 4, 1, 3, 5).reshape(B, n * n, channels * p * p)
        return F.linear(patches, self.weight, self.bias) + self.positions


def get_inputs(B=8, S=224, P=16, C=768):
    return [torch.randn(B, 3, S, S)]


def get_init_inputs(B=8, S=224, P=16, C=768):
    return [S, P, C]
