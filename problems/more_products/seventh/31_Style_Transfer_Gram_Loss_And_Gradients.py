import torch
import torch.nn as nn


class Model(nn.Module):
    """Neural style loss: normalised Gram matrices of four feature maps against the style image's, and the loss's gradient for each map."""

    def __init__(self, weights):
        super().__init__()
        self.weights = weights

    @staticmethod
    def gram(f):
        c, n = f.shape
        return (f @ f.t()) / n

    def forward(self, f1, f2, f3, f4, s1, s2, s3, s4):
        grads, parts = [], []
        for wt, f, s in zip(self.weights, (f1, f2, f3, f4), (s1, s2, s3, s4)):
            c, h, w = f.shape
            flat = f.view(c, h * w)
            diff = self.gram(flat) - self.gram(s.view(c, h * w))
            parts.append(wt * diff.square().mean())
            g = (4.0 * wt / (c * c)) * (diff @ flat)
            grads.append(g.view(c, h, w))
        parts = torch.stack(parts)
        return (parts.sum(), parts, *grads)


SHAPES = [(64, 256), (128, 128), (256, 64), (512, 32)]


def get_inputs():
    content = [torch.relu(torch.randn(c, s, s)) for c, s in SHAPES]
    style = [torch.relu(torch.randn(c, s, s) + torch.randn(c, 1, 1)) for c, s in SHAPES]
    return content + style


def get_init_inputs():
    return [[100.0, 200.0, 400.0, 1000.0]]
