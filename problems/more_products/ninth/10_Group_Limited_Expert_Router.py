import torch
import torch.nn as nn


class Model(nn.Module):
    """Router of a mixture of experts with limited groups (DeepSeek-V3), float32: sigmoid scores of the gate product, a
    balancing bias for the choice only, the best groups by the sum of their two best scores, the best experts inside
    them. Returns expert indexes, normalised weights and the load of each expert."""

    def __init__(self, groups, keep_groups, top, factor):
        super().__init__()
        self.groups, self.keep, self.top, self.factor = groups, keep_groups, top, factor

    def forward(self, x, gate, bias):
        rows, experts = x.shape[0], gate.shape[0]
        scores = torch.sigmoid(x @ gate.t())
        choice = (scores + bias).reshape(rows, self.groups, experts // self.groups)
        group_score = choice.topk(2, dim=-1).values.sum(dim=-1)
        group = group_score.topk(self.keep, dim=-1).indices
        allowed = torch.zeros_like(group_score).scatter(1, group, 1.0) > 0
        choice = choice.masked_fill(~allowed[:, :, None], float("-inf")).flatten(1)

        index = choice.topk(self.top, dim=-1).indices
        weight = scores.gather(1, index)
        weight = weight / (weight.sum(dim=-1, keepdim=True) + 1e-20) * self.factor
        one = torch.ones(rows * self.top, dtype=torch.int64, device=x.device)
        load = torch.zeros(experts, dtype=torch.int64, device=x.device).scatter_add(0, index.flatten(), one)
        return index, weight, load


ROWS, DIM, EXPERTS, GROUPS, KEEP, TOP = 777, 2048, 256, 8, 4, 8


def get_inputs():
    # each row leans on two experts in each of four groups with well separated strengths, and on a lone one in a fifth
    gate = torch.randn(EXPERTS, DIM) / DIM**0.5
    size = EXPERTS // GROUPS
    group = torch.rand(ROWS, GROUPS).argsort(dim=1)[:, : KEEP + 1]
    member = torch.rand(ROWS, KEEP + 1, size).argsort(dim=2)[:, :, : TOP // KEEP]
    chosen = (group[:, :, None] * size + member).flatten(1)[:, : TOP + 1]
    strength = (-0.6 + 0.4 * torch.arange(TOP).float())[torch.rand(ROWS, TOP).argsort(dim=1)]
    strength = torch.cat((strength, torch.full((ROWS, 1), -0.2)), dim=1)
    logits = torch.full((ROWS, EXPERTS), -1.5).scatter(1, chosen, strength)
    x = logits @ torch.linalg.pinv(gate).t() + 0.1 * torch.randn(ROWS, DIM)
    return [x, gate, 0.005 * torch.randn(EXPERTS)]


def get_init_inputs():
    return [GROUPS, KEEP, TOP, 2.5]
