import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH, USERS, ITEMS, CATS, HIST, DENSE, EMB = 1000, 100000, 60000, 500, 50, 21, 64


class Model(nn.Module):
    """Two-tower retrieval training forward: masked mean of the item history, ReLU towers, L2 norm,
    in-batch softmax with log-Q correction, temperature and accidental-hit mask."""

    def __init__(self, users: int, items: int, cats: int, dense: int, emb: int, temperature: float):
        super().__init__()
        kw = dict(dtype=torch.float16)
        self.user_emb = nn.Parameter(torch.randn(users, emb, **kw))
        self.item_emb = nn.Parameter(torch.randn(items, emb, **kw))
        self.cat_emb = nn.Parameter(torch.randn(cats, emb // 2, **kw))
        self.u1 = nn.Linear(2 * emb + dense, 512, **kw)
        self.u2 = nn.Linear(512, 128, **kw)
        self.i1 = nn.Linear(emb + emb // 2, 512, **kw)
        self.i2 = nn.Linear(512, 128, **kw)
        self.temperature = temperature

    def forward(self, user, hist, hist_len, dense, item, cat, log_q):
        keep = (torch.arange(hist.shape[1], device=hist.device) < hist_len.unsqueeze(1)).to(dense.dtype)
        h = F.embedding(hist, self.item_emb) * keep.unsqueeze(-1)
        h = h.sum(1) / keep.sum(1, keepdim=True).clamp(min=1)
        u = torch.cat((F.embedding(user, self.user_emb), h, dense), dim=-1)
        u = F.normalize(self.u2(F.relu(self.u1(u))).float(), dim=-1)
        v = torch.cat((F.embedding(item, self.item_emb), F.embedding(cat, self.cat_emb)), dim=-1)
        v = F.normalize(self.i2(F.relu(self.i1(v))).float(), dim=-1)
        scores = (u.half() @ v.half().t()).float() / self.temperature - log_q
        same = item.unsqueeze(0) == item.unsqueeze(1)
        eye = torch.eye(item.shape[0], dtype=torch.bool, device=item.device)
        scores = scores.masked_fill(same & ~eye, -1e4)
        return torch.logsumexp(scores, dim=1) - torch.diagonal(scores)


def get_inputs():
    return [
        torch.randint(0, USERS, (BATCH,)),
        torch.randint(0, ITEMS, (BATCH, HIST)),
        torch.randint(0, HIST + 1, (BATCH,)),
        torch.randn(BATCH, DENSE, dtype=torch.float16),
        torch.randint(0, ITEMS, (BATCH,)),
        torch.randint(0, CATS, (BATCH,)),
        -8.0 + torch.randn(BATCH),
    ]


def get_init_inputs():
    return [USERS, ITEMS, CATS, DENSE, EMB, 0.07]
