import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH, ENTITIES, RELATIONS, D_E, D_R = 128, 40943, 22, 200, 30


class Model(nn.Module):
    """TuckER knowledge-graph scoring (WN18RR): three-operand contraction of subject, core tensor and relation,
    folded batch norms, scores against all entities, label-smoothed binary cross entropy per query."""

    def __init__(self, entities: int, relations: int, d_e: int, d_r: int, smoothing: float):
        super().__init__()
        kw = dict(dtype=torch.float16)
        self.e = nn.Parameter(torch.randn(entities, d_e, **kw) * 0.3)
        self.r = nn.Parameter(torch.randn(relations, d_r, **kw))
        self.core = nn.Parameter(torch.randn(d_r, d_e, d_e, **kw) * (d_r * d_e) ** -0.5)
        self.bn0_scale = nn.Parameter(2.0 + torch.rand(d_e, **kw))
        self.bn0_shift = nn.Parameter(0.1 * torch.randn(d_e, **kw))
        self.bn1_scale = nn.Parameter(0.5 + torch.rand(d_e, **kw))
        self.bn1_shift = nn.Parameter(0.1 * torch.randn(d_e, **kw))
        self.smoothing = smoothing

    def forward(self, subject, relation, targets):
        s = F.embedding(subject, self.e) * self.bn0_scale + self.bn0_shift
        r = F.embedding(relation, self.r)
        h = torch.einsum("bi,rij,br->bj", s, self.core, r)
        h = h * self.bn1_scale + self.bn1_shift
        logits = (h @ self.e.t()).float()
        t = targets.float() * (1.0 - self.smoothing) + 1.0 / targets.shape[1]
        loss = F.softplus(logits) - logits * t
        return loss.mean(dim=1), logits.amax(dim=1)


def get_inputs():
    return [
        torch.randint(0, ENTITIES, (BATCH,)),
        torch.randint(0, RELATIONS, (BATCH,)),
        (torch.rand(BATCH, ENTITIES) < 0.001).half(),
    ]


def get_init_inputs():
    return [ENTITIES, RELATIONS, D_E, D_R, 0.1]
