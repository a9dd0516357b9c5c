import torch
import torch.nn as nn


class Model(nn.Module):
    """ConvNeXt downsampling written as a product: LayerNorm over channels of an NCHW map, 2 x 2 patches folded into channels, projection, back to NCHW."""

    def __init__(self, c_in, c_out):
        super().__init__()
        self.g = nn.Parameter((1.0 + 0.1 * torch.randn(c_in)).half())
        self.b = nn.Parameter((0.1 * torch.randn(c_in)).half())
        self.w = nn.Parameter((torch.randn(c_out, c_in, 2, 2) / (4 * c_in) ** 0.5).half())
        self.bias = nn.Parameter((0.1 * torch.randn(c_out)).half())

    def forward(self, x):
        n, c, h, w = x.shape
        xf = x.float()
        mu = xf.mean(1, keepdim=True)
        var = (xf - mu).square().mean(1, keepdim=True)
        y = ((xf - mu) * torch.rsqrt(var + 1e-6)).to(x.dtype)
        y = y * self.g[:, None, None] + self.b[:, None, None]
        y = y.view(n, c, h // 2, 2, w // 2, 2).permute(0, 2, 4, 1, 3, 5).reshape(-1, 4 * c)
        y = y @ self.w.flatten(1).t() + self.bias
        return y.view(n, h // 2, w // 2, -1).permute(0, 3, 1, 2).contiguous()


def get_inputs():
    return [torch.randn(32, 192, 56, 56).half()]


def get_init_inputs():
    return [192, 384]
