"""Cosine similarities of images and texts with a learned scale and bias, as in CLIP and SigLIP."""
import torch
import torch.nn.functional as F

WORKLOADS = {
    "search": {"M": 16, "N": 32768, "D": 768},
    "small": {"M": 256, "N": 1000, "D": 512},
    "large": {"M": 8192, "N": 8192, "D": 1152},
}


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(2.3 * torch.ones(1))
        self.bias = torch.nn.Parameter(-1.0 * torch.ones(1))

    def forward(self, images, texts):
        images, texts = F.normalize(images, dim=-1), F.normalize(texts, dim=-1)
        return ((images @ texts.T).float() * self.scale.exp() + self.bias).to(images.dtype)


def get_inputs(M=256, N=1000, D=512):
    return [torch.randn(M, D, dtype=torch.float16), torch.randn(N, D, dtype=torch.float16)]


def get_init_inputs(M=256, N=1000, D=512):
    return []
