import math
import torch
import torch.nn as nn
import torch.nn.functional as F

QUERIES, Q_LEN, DOCS, D_LEN, HIDDEN, DIM = 64, 32, 128, 180, 768, 128


class Model(nn.Module):
    """ColBERT late interaction: token projection and normalisation, all-pairs MaxSim with a document mask, in-batch cross entropy."""

    def __init__(self, hidden, dim):
        super().__init__()
        self.proj = nn.Parameter((torch.randn(dim, hidden) / math.sqrt(hidden)).to(torch.float16))

    def encode(self, h):
        t = (h @ self.proj.t()).float()
        return (t * torch.rsqrt(t.pow(2).sum(-1, keepdim=True) + 1e-12)).to(h.dtype)

    def forward(self, q_hidden, d_hidden, d_mask):
        q = self.encode(q_hidden)
        d = self.encode(d_hidden)
        sim = torch.einsum("qik,djk->qdij", q, d)
        sim = sim.masked_fill(~d_mask[None, :, None, :], -1.0)
        scores = sim.amax(-1).float().sum(-1)
        loss = F.cross_entropy(scores, torch.arange(scores.shape[0], device=scores.device))
        return scores, loss


def get_inputs():
    lengths = torch.randint(D_LEN // 3, D_LEN + 1, (DOCS, 1))
    return [
        torch.randn(QUERIES, Q_LEN, HIDDEN, dtype=torch.float16),
        torch.randn(DOCS, D_LEN, HIDDEN, dtype=torch.float16),
        torch.arange(D_LEN)[None, :] < lengths,
    ]


def get_init_inputs():
    return [HIDDEN, DIM]
