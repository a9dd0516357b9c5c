import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """FinalMLP click model on Criteo-like input (39 fields of 10 features): user-side and item-side context vectors
    gate the joint embedding differently for two MLP streams, whose outputs are fused head by head by a bilinear form
    and two linear terms. Returns click probabilities and the mean log loss; bfloat16 training."""

    def __init__(self, fields, dim, context, hidden1, hidden2, heads):
        super().__init__()
        bf = dict(dtype=torch.bfloat16)
        width = fields * dim
        self.heads = heads
        self.gate1 = nn.Sequential(nn.Linear(context, 256, **bf), nn.ReLU(), nn.Linear(256, width, **bf))
        self.gate2 = nn.Sequential(nn.Linear(context, 256, **bf), nn.ReLU(), nn.Linear(256, width, **bf))
        self.mlp1 = nn.Sequential(
            nn.Linear(width, hidden1, **bf), nn.ReLU(),
            nn.Linear(hidden1, hidden1, **bf), nn.ReLU(),
            nn.Linear(hidden1, 400, **bf),
        )
        self.mlp2 = nn.Sequential(nn.Linear(width, hidden2, **bf), nn.ReLU(), nn.Linear(hidden2, 400, **bf))
        d = 400 // heads
        self.w1 = nn.Linear(400, 1, **bf)
        self.w2 = nn.Linear(400, 1, bias=False, **bf)
        self.bilinear = nn.Parameter((torch.randn(heads, d, d) / d).to(torch.bfloat16))

    def forward(self, emb, user, item, click):
        flat = emb.flatten(1)
        a = self.mlp1(flat * (2 * torch.sigmoid(self.gate1(user))))
        b = self.mlp2(flat * (2 * torch.sigmoid(self.gate2(item))))
        ah = a.unflatten(1, (self.heads, -1))
        bh = b.unflatten(1, (self.heads, -1))
        cross = torch.einsum("bhi,hij->bhj", ah, self.bilinear) * bh
        logit = (self.w1(a) + self.w2(b))[:, 0].float() + cross.float().sum(dim=(1, 2))
        loss = F.binary_cross_entropy_with_logits(logit, click)
        return torch.sigmoid(logit), loss


BATCH, FIELDS, DIM, CONTEXT = 8192, 39, 10, 30


def get_inputs():
    bf = torch.bfloat16
    return [
        torch.randn(BATCH, FIELDS, DIM).to(bf),
        torch.randn(BATCH, CONTEXT).to(bf),
        torch.randn(BATCH, CONTEXT).to(bf),
        (torch.rand(BATCH) < 0.25).float(),
    ]


def get_init_inputs():
    return [FIELDS, DIM, CONTEXT, 400, 800, 10]
