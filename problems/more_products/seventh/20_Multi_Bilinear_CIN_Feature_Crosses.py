import torch
import torch.nn as nn


class Model(nn.Module):
    """xDeepFM compressed interaction network: three layers of weighted field outer products, sum pooling, linear and first-order terms."""

    def __init__(self, fields, maps, layers):
        super().__init__()
        self.filters = nn.ParameterList()
        self.bias = nn.ParameterList()
        prev = fields
        for _ in range(layers):
            self.filters.append(nn.Parameter(torch.randn(maps, prev, fields) * (2.0 / (prev * fields)) ** 0.5))
            self.bias.append(nn.Parameter(0.05 * torch.randn(maps)))
            prev = maps
        self.out = nn.Linear(maps * layers, 1)

    def forward(self, x0, first_order):
        h = x0
        pooled = []
        for f, b in zip(self.filters, self.bias):
            h = torch.relu(torch.einsum("bhd,bmd,ohm->bod", h, x0, f) + b[:, None])
            pooled.append(h.sum(-1))
        logit = self.out(torch.cat(pooled, dim=-1)).squeeze(-1) + first_order.sum(-1)
        return torch.sigmoid(logit), torch.cat(pooled, dim=-1)


def get_inputs():
    return [0.7 * torch.randn(512, 39, 16), 0.1 * torch.randn(512, 39)]


def get_init_inputs():
    return [39, 100, 3]
