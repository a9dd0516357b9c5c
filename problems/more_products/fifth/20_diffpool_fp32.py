import torch
import torch.nn as nn
import torch.nn.functional as F

GRAPHS, NODES, DIM, CLUSTERS = 20, 500, 128, 125


class Model(nn.Module):
    """DiffPool on a batch of dense graphs: SAGE embedding and assignment, pooled features and adjacency, link and entropy losses."""

    def __init__(self, dim, clusters):
        super().__init__()
        self.embed = nn.Linear(2 * dim, dim)
        self.assign = nn.Linear(2 * dim, clusters)

    def forward(self, x, adj):
        deg = adj.sum(-1, keepdim=True).clamp(min=1.0)
        agg = torch.cat([x, torch.bmm(adj, x) / deg], dim=-1)
        z = F.normalize(F.relu(self.embed(agg)), dim=-1)
        s = torch.softmax(4.0 * self.assign(agg), dim=-1)
        st = s.transpose(1, 2)
        pooled = torch.bmm(st, z)
        pooled_adj = torch.bmm(torch.bmm(st, adj), s)
        link = (adj - torch.bmm(s, st)).pow(2).mean().sqrt()
        entropy = -(s * torch.log(s + 1e-15)).sum(-1).mean()
        return pooled, pooled_adj, link, entropy


def get_inputs():
    adj = (torch.rand(GRAPHS, NODES, NODES) < 0.02).float().triu(1)
    return [torch.randn(GRAPHS, NODES, DIM), adj + adj.transpose(1, 2)]


def get_init_inputs():
    return [DIM, CLUSTERS]
