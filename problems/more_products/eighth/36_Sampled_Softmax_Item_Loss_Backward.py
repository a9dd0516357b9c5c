import torch
import torch.nn as nn


class Model(nn.Module):
    """Sampled-softmax training of a sequential recommender over 200003 items: shared negative items are gathered from
    the table, logits are corrected by the log sampling probability, accidental hits masked, and the scaled loss comes
    with explicit gradients of the user states, of the sampled rows and of the positive rows."""

    def __init__(self, items, dim, grad_scale):
        super().__init__()
        self.grad_scale = grad_scale
        self.table = nn.Parameter((torch.randn(items, dim) / dim ** 0.5).to(torch.bfloat16))

    def forward(self, h, positive, sampled, log_q, weight):
        pos_rows = self.table.index_select(0, positive)
        neg_rows = self.table.index_select(0, sampled)
        pos = (h.float() * pos_rows.float()).sum(-1) - log_q[positive]
        neg = (h @ neg_rows.t()).float() - log_q[sampled]
        neg = neg.masked_fill(positive[:, None] == sampled[None, :], -1e9)
        norm = torch.logaddexp(torch.logsumexp(neg, dim=-1), pos)
        total = weight.sum()
        loss = ((norm - pos) * weight).sum() * (self.grad_scale / total)

        share = (weight * (self.grad_scale / total))[:, None]
        d_neg = (torch.exp(neg - norm[:, None]) * share).to(h.dtype)
        d_pos = (torch.exp(pos - norm) - 1.0)[:, None] * share
        dh = (d_neg @ neg_rows).float() + d_pos * pos_rows.float()
        d_neg_rows = d_neg.t() @ h
        d_pos_rows = d_pos * h.float()
        return loss, dh, d_neg_rows, d_pos_rows


TOKENS, ITEMS, DIM, SAMPLES = 3000, 200003, 128, 4096


def get_inputs():
    return [
        (3.0 * torch.randn(TOKENS, DIM)).to(torch.bfloat16),
        torch.randint(0, ITEMS, (TOKENS,)),
        torch.randint(0, ITEMS, (SAMPLES,)),
        torch.log_softmax(1.5 * torch.randn(ITEMS), dim=0),
        (torch.rand(TOKENS) < 0.9).float(),
    ]


def get_init_inputs():
    return [ITEMS, DIM, 1024.0]
