import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Recommender: bottom MLP on dense features, pairwise dot products of field vectors, lower triangle, top MLP."""

    def __init__(self, dense, fields, d, top):
        super().__init__()
        self.b1 = nn.Linear(dense, 512)
        self.b2 = nn.Linear(512, d)
        n = fields + 1
        idx = torch.tril_indices(n, n, offset=-1)
        self.register_buffer("li", idx[0])
        self.register_buffer("lj", idx[1])
        self.t1 = nn.Linear(d + n * (n - 1) // 2, top)
        self.t2 = nn.Linear(top, top // 2)
        self.t3 = nn.Linear(top // 2, 1)
        with torch.no_grad():
            self.t3.weight.mul_(5.0)

    def forward(self, dense, emb):
        x = F.relu(self.b2(F.relu(self.b1(dense))))
        t = torch.cat((x.unsqueeze(1), emb), dim=1)
        z = torch.bmm(t, t.transpose(1, 2))
        z = z[:, self.li, self.lj]
        r = torch.cat((x, z), dim=1)
        r = F.relu(self.t2(F.relu(self.t1(r))))
        return self.t3(r).squeeze(1)


def get_inputs():
    return [torch.rand(4096, 13), torch.randn(4096, 26, 64) * 0.5]


def get_init_inputs():
    return [13, 26, 64, 1024]
