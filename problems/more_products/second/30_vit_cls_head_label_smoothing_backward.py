import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, dim, num_classes, smoothing):
        super().__init__()
        self.norm = nn.LayerNorm(dim, eps=1e-6)
        self.head = nn.Linear(dim, num_classes)
        self.smoothing = smoothing

    def forward(self, tokens, labels):
        cls = tokens[:, 0]
        mu = cls.mean(-1, keepdim=True)
        rstd = torch.rsqrt(cls.var(-1, unbiased=False, keepdim=True) + 1e-6)
        xhat = (cls - mu) * rstd
        y = xhat * self.norm.weight + self.norm.bias
        p = torch.softmax(self.head(y), dim=-1) - self.smoothing / self.head.out_features
        hit = torch.arange(self.head.out_features, device=p.device)[None, :] == labels[:, None]
        dz = torch.where(hit, p - (1.0 - self.smoothing), p)
        dw, db = dz.t() @ y, dz.sum(0)
        g = (dz @ self.head.weight) * self.norm.weight
        dcls = rstd * (g - g.mean(-1, keepdim=True) - xhat * (g * xhat).mean(-1, keepdim=True))
        d_tokens = F.pad(dcls.unsqueeze(1), (0, 0, 0, tokens.shape[1] - 1))
        return d_tokens, dw, db


def get_inputs():
    return [torch.randn(64, 197, 768), torch.randint(0, 1000, (64,))]


def get_init_inputs():
    return [768, 1000, 0.1]
