import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, steps):
        super().__init__()
        self.steps = steps

    def forward(self, grad):
        a, b, c = 3.4445, -4.7750, 2.0315
        g = grad.float()
        x = (g / (g.norm(dim=(-2, -1), keepdim=True) + 1e-7)).bfloat16()
        for _ in range(self.steps):
            gram = torch.bmm(x, x.transpose(1, 2))
            poly = torch.baddbmm(gram, gram, gram, beta=b, alpha=c)
            x = torch.baddbmm(x, poly, x, beta=a, alpha=1.0)
        return x.float() * (0.2 * max(grad.shape[-2:]) ** 0.5)


def get_inputs():
    return [torch.randn(4, 1024, 2048, dtype=torch.bfloat16)]


def get_init_inputs():
    return [2]
