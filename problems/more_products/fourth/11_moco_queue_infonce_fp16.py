import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS, FEAT, DIM, QUEUE = 384, 2048, 128, 65536


class Model(nn.Module):
    """MoCo v2 head: 2-layer projector, L2 norm, positive logit, logits against a queue stored as (dim, queue),
    same-image negatives masked out by id, InfoNCE loss and hardest negative per row."""

    def __init__(self, feat, dim, temperature):
        super().__init__()
        self.fc1 = nn.Linear(feat, feat)
        self.fc2 = nn.Linear(feat, dim)
        self.t = temperature
        self.to(torch.float16)

    def forward(self, feats, key, queue, ids, queue_ids):
        q = F.normalize(self.fc2(torch.relu(self.fc1(feats))).float(), dim=-1).to(torch.float16)
        pos = (q.float() * key.float()).sum(-1, keepdim=True) / self.t
        neg = torch.matmul(q, queue).float() / self.t
        neg = neg.masked_fill(ids[:, None] == queue_ids[None, :], float("-inf"))
        lse = torch.logsumexp(torch.cat((pos, torch.logsumexp(neg, -1, keepdim=True)), dim=-1), dim=-1)
        return (lse - pos.squeeze(-1)).mean(), neg.amax(dim=-1), q


def get_inputs():
    return [
        torch.relu(torch.randn(ROWS, FEAT)).to(torch.float16),
        F.normalize(torch.randn(ROWS, DIM), dim=-1).to(torch.float16),
        F.normalize(torch.randn(DIM, QUEUE), dim=0).to(torch.float16),
        torch.randint(0, 20000, (ROWS,)),
        torch.randint(0, 20000, (QUEUE,)),
    ]


def get_init_inputs():
    return [FEAT, DIM, 0.2]
