import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, dim, num_classes):
        super().__init__()
        self.enc_output = nn.Sequential(nn.Linear(dim, dim), nn.LayerNorm(dim))
        self.score_head = nn.Linear(dim, num_classes)
        self.bbox0 = nn.Linear(dim, dim)
        self.bbox1 = nn.Linear(dim, dim)
        self.bbox2 = nn.Linear(dim, 4)

    def forward(self, memory, anchors, valid):
        memory = torch.where(valid, memory, torch.zeros_like(memory))
        out = self.enc_output(memory)
        best = self.score_head(out).amax(dim=-1)
        h = F.relu(self.bbox1(F.relu(self.bbox0(out))))
        boxes = torch.sigmoid(self.bbox2(h) + anchors)
        return out, best.masked_fill(~valid.squeeze(-1), -8.0), boxes


def get_inputs():
    return [torch.randn(8, 8400, 256), torch.randn(1, 8400, 4), torch.rand(1, 8400, 1) > 0.05]


def get_init_inputs():
    return [256, 80]
