import math
import torch
import torch.nn as nn

BATCH, FIELDS, EMB, HID = 3000, 24, 16, 400


class Model(nn.Module):
    """FiBiNET click model: SENET gate over the fields, bilinear interaction (v_i W_i) * v_j of all pairs,
    a factorisation machine term, and an MLP. Absent fields are masked."""

    def __init__(self, fields, emb, hid):
        super().__init__()
        self.se1 = nn.Linear(fields, fields // 3, bias=False)
        self.se2 = nn.Linear(fields // 3, fields, bias=False)
        self.bil = nn.Parameter(torch.randn(2, fields, emb, emb) / math.sqrt(emb))
        pairs = torch.triu_indices(fields, fields, offset=1)
        self.register_buffer("left", pairs[0])
        self.register_buffer("right", pairs[1])
        self.fc1 = nn.Linear(2 * pairs.shape[1] * emb, hid)
        self.fc2 = nn.Linear(hid, 1)

    def pairs(self, e, w):
        return torch.einsum("bfi,fij->bfj", e, w)[:, self.left] * e[:, self.right]

    def forward(self, emb, present):
        e = emb * present[..., None]
        a = torch.relu(self.se2(torch.relu(self.se1(e.mean(-1)))))
        both = torch.cat((self.pairs(e, self.bil[0]), self.pairs(e * a[..., None], self.bil[1])), dim=1)
        deep = self.fc2(torch.relu(self.fc1(both.flatten(1)))).squeeze(-1)
        fm = 0.5 * (e.sum(1).square() - e.square().sum(1)).sum(-1)
        return torch.sigmoid(deep + 0.05 * fm)


def get_inputs():
    return [0.5 * torch.randn(BATCH, FIELDS, EMB), torch.rand(BATCH, FIELDS) < 0.9]


def get_init_inputs():
    return [FIELDS, EMB, HID]
