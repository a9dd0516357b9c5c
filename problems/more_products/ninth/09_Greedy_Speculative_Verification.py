import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Verification of drafted tokens by the large model, greedy: final RMS norm, language head over an odd vocabulary,
    soft cap of the logits, the best token of each row, its log probability, and how many drafted tokens of each
    sequence agree before the first that does not. Hidden rows are drawn near one head row each, so the best is
    clear."""

    def __init__(self, dim, cap):
        super().__init__()
        self.cap = cap
        self.norm = nn.Parameter((1 + 0.05 * torch.randn(dim)).to(torch.bfloat16))

    def forward(self, hidden, drafted, head):
        hf = hidden.float()
        h = (hf * torch.rsqrt(hf.pow(2).mean(-1, keepdim=True) + 1e-6)).to(hidden.dtype) * self.norm
        logits = F.linear(h, head).float()
        logits = self.cap * torch.tanh(logits / self.cap)
        best = logits.argmax(dim=-1)
        logp = logits.amax(dim=-1) - torch.logsumexp(logits, dim=-1)
        agree = (best[:, :-1] == drafted).long()
        return best, logp, agree.cumprod(dim=-1).sum(dim=-1)


SEQUENCES, DRAFTED, DIM, VOCAB = 3, 4, 1280, 50257


def get_inputs():
    head = (torch.randn(VOCAB, DIM) / DIM**0.5).to(torch.bfloat16)
    target = torch.randint(0, VOCAB, (SEQUENCES, DRAFTED + 1))
    hidden = 0.3 * DIM**0.5 * head[target].float() + torch.randn(SEQUENCES, DRAFTED + 1, DIM)
    wrong = torch.rand(SEQUENCES, DRAFTED) < 0.3
    drafted = torch.where(wrong, torch.randint(0, VOCAB, (SEQUENCES, DRAFTED)), target[:, :-1])
    return [hidden.to(torch.bfloat16), drafted, head]


def get_init_inputs():
    return [DIM, 30.0]
