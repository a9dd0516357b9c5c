import math
import torch
import torch.nn as nn
import torch.nn.functional as F

PAIRS, DIM = 2560, 768


class Model(nn.Module):
    """SigLIP pairwise sigmoid loss with its gradients to both raw embeddings, the log-scale and the bias; the gradients
    start from an incoming loss scale."""

    def __init__(self, log_scale, bias):
        super().__init__()
        self.log_scale = nn.Parameter(torch.tensor(log_scale))
        self.bias = nn.Parameter(torch.tensor(bias))

    def forward(self, img, txt, loss_scale):
        n = img.shape[0]
        ni, nt = img.norm(dim=-1, keepdim=True), txt.norm(dim=-1, keepdim=True)
        zi, zt = img / ni, txt / nt
        scale = self.log_scale.exp()
        cos = zi @ zt.t()
        label = 2.0 * torch.eye(n, device=img.device, dtype=img.dtype) - 1.0
        z = label * (scale * cos + self.bias)
        loss = -F.logsigmoid(z).sum() / n
        g = -label * torch.sigmoid(-z) * (loss_scale / n)
        dzi = scale * (g @ zt)
        dzt = scale * (g.t() @ zi)
        dimg = (dzi - zi * (zi * dzi).sum(-1, keepdim=True)) / ni
        dtxt = (dzt - zt * (zt * dzt).sum(-1, keepdim=True)) / nt
        return loss, dimg, dtxt, scale * (g * cos).sum(), g.sum()


def get_inputs():
    img = torch.randn(PAIRS, DIM)
    return [img, 0.3 * img + torch.randn(PAIRS, DIM), torch.tensor(8192.0)]


def get_init_inputs():
    return [math.log(10.0), -10.0]
