import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Two shared layers of PointNet in training: a linear map over all points, batch normalisation with the statistics
    of the batch, ReLU, a second linear map and the maximum over the points of each cloud. The running mean, the running
    (unbiased) variance and the batch counter are inputs that are updated in place."""

    def __init__(self, dim, hidden, out, momentum):
        super().__init__()
        self.momentum = momentum
        self.first = nn.Linear(dim, hidden, bias=False)
        self.gamma = nn.Parameter(1 + 0.1 * torch.randn(hidden))
        self.beta = nn.Parameter(0.1 * torch.randn(hidden))
        self.second = nn.Linear(hidden, out)

    def forward(self, points, running_mean, running_var, batches):
        h = self.first(points)
        count = h.shape[0] * h.shape[1]
        mean = h.mean(dim=(0, 1))
        var = (h - mean).pow(2).mean(dim=(0, 1))
        running_mean.mul_(1 - self.momentum).add_(mean, alpha=self.momentum)
        running_var.mul_(1 - self.momentum).add_(var * (count / (count - 1)), alpha=self.momentum)
        batches.add_(1)
        h = F.relu((h - mean) * torch.rsqrt(var + 1e-5) * self.gamma + self.beta)
        return self.second(h).amax(dim=1)


CLOUDS, POINTS, DIM, HIDDEN, OUT = 8, 1031, 131, 256, 512


def get_inputs():
    return [
        torch.randn(CLOUDS, POINTS, DIM),
        0.1 * torch.randn(HIDDEN),
        0.5 + torch.rand(HIDDEN),
        torch.full((1,), 41, dtype=torch.int64),
    ]


def get_init_inputs():
    return [DIM, HIDDEN, OUT, 0.1]
