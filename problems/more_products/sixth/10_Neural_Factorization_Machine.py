import torch
import torch.nn as nn


class Model(nn.Module):
    """Factorisation machine over dense features with bi-interaction pooling, an MLP head and the wide part."""

    def __init__(self, n_feat, k, hidden):
        super().__init__()
        self.V = nn.Parameter(torch.randn(n_feat, k) / n_feat ** 0.5)
        self.wide = nn.Linear(n_feat, 1)
        self.fc1 = nn.Linear(k, hidden)
        self.fc2 = nn.Linear(hidden, 1, bias=False)

    def forward(self, x):
        s = x @ self.V
        sq = (x * x) @ (self.V * self.V)
        bi = 0.5 * (s * s - sq)
        deep = self.fc2(torch.relu(self.fc1(bi)))
        logit = self.wide(x) + bi.mean(dim=-1, keepdim=True) + deep
        return torch.sigmoid(logit).squeeze(-1), bi


def get_inputs():
    return [torch.randn(8192, 1237)]


def get_init_inputs():
    return [1237, 96, 400]
