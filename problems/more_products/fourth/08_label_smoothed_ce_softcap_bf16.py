import math
import torch
import torch.nn as nn

ROWS, DIM, VOCAB = 1024, 1152, 32003


class Model(nn.Module):
    """Language-model head with tanh soft cap, label-smoothed cross entropy and ignored rows (label -100).
    Returns the mean loss, the per-row log-normaliser and the number of counted rows."""

    def __init__(self, dim, vocab, cap, smooth):
        super().__init__()
        self.weight = nn.Parameter(2.0 * torch.randn(vocab, dim) / math.sqrt(dim))
        self.cap, self.smooth = cap, smooth
        self.to(torch.bfloat16)

    def forward(self, h, labels):
        logits = (h @ self.weight.t()).float()
        logits = self.cap * torch.tanh(logits / self.cap)
        lse = torch.logsumexp(logits, dim=-1)
        valid = labels >= 0
        picked = logits.gather(1, labels.clamp(min=0)[:, None]).squeeze(1)
        nll = lse - picked
        uniform = lse - logits.mean(dim=-1)
        loss = (1.0 - self.smooth) * nll + self.smooth * uniform
        count = valid.sum()
        return torch.where(valid, loss, 0.0).sum() / count.clamp(min=1), lse, count


def get_inputs():
    labels = torch.randint(0, VOCAB, (ROWS,))
    labels[torch.rand(ROWS) < 0.15] = -100
    return [torch.randn(ROWS, DIM, dtype=torch.bfloat16), labels]


def get_init_inputs():
    return [DIM, VOCAB, 15.0, 0.1]
