import torch
import torch.nn as nn
import torch.nn.functional as F

CLOUDS, POINTS, CLASSES = 24, 2000, 40


class Model(nn.Module):
    """PointNet classifier: per-cloud 3x3 alignment by bmm of channels-first points, shared MLP 3-64-128-1024
    with folded batch norm, max over the valid points, small head with log-softmax."""

    def __init__(self, classes):
        super().__init__()
        dims = [3, 64, 128, 1024]
        self.fcs = nn.ModuleList(nn.Linear(i, o, bias=False) for i, o in zip(dims, dims[1:]))
        self.gains = nn.ParameterList(1.5 + 0.2 * torch.randn(o) for o in dims[1:])
        self.shifts = nn.ParameterList(0.1 * torch.randn(o) for o in dims[1:])
        self.head1 = nn.Linear(1024, 256)
        self.head2 = nn.Linear(256, classes)
        self.to(torch.float16)

    def forward(self, points, align, valid):
        h = torch.bmm(points.transpose(1, 2), align)
        for n, (fc, gain, shift) in enumerate(zip(self.fcs, self.gains, self.shifts)):
            h = fc(h) * gain + shift
            if n < 2:
                h = F.relu(h)
        pooled = h.masked_fill(~valid[..., None], -65504.0).amax(dim=1)
        logits = self.head2(F.relu(self.head1(pooled)))
        return F.log_softmax(logits.float(), dim=-1), pooled


def get_inputs():
    valid = torch.arange(POINTS)[None, :] < torch.randint(POINTS // 4, POINTS + 1, (CLOUDS, 1))
    align = torch.eye(3) + 0.2 * torch.randn(CLOUDS, 3, 3)
    return [torch.randn(CLOUDS, 3, POINTS, dtype=torch.float16), align.to(torch.float16), valid]


def get_init_inputs():
    return [CLASSES]
