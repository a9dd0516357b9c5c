import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Medusa drafting for four rows: final norm, the base head, and four SiLU residual blocks sharing that head, scored as log-probabilities."""

    def __init__(self, dim, vocab, drafts):
        super().__init__()
        self.dim = dim
        bf = torch.bfloat16
        self.norm = nn.Parameter((1.0 + 0.1 * torch.randn(dim)).to(bf))
        self.w = nn.Parameter((torch.randn(drafts, dim, dim) / dim ** 0.5).to(bf))
        self.b = nn.Parameter((0.1 * torch.randn(drafts, 1, dim)).to(bf))
        self.lm_head = nn.Linear(dim, vocab, bias=False).to(bf)

    def forward(self, h):
        n = F.rms_norm(h, (self.dim,), self.norm, 1e-6)
        d = n[None] + F.silu(torch.baddbmm(self.b, n.expand(self.w.shape[0], -1, -1), self.w))
        rows = torch.cat((n[None], d), dim=0)
        return torch.log_softmax(self.lm_head(rows).float(), dim=-1)


def get_inputs():
    return [torch.randn(4, 2048).to(torch.bfloat16)]


def get_init_inputs():
    return [2048, 32000, 4]
