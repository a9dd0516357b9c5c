import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Adaptive softmax output layer as in Transformer-XL on WikiText-103 (half precision, evaluation): the 20000
    frequent words and three cluster entries share a full-width head, rarer words live in three tails behind ever
    narrower projections (256, 64 and 16 features). Returns the negative log-likelihood of every target and the mean."""

    def __init__(self, dim, cutoffs, vocab, div):
        super().__init__()
        self.ends = list(cutoffs) + [vocab]
        half = dict(dtype=torch.float16)
        clusters = len(self.ends) - 1
        self.head = nn.Linear(dim, self.ends[0] + clusters, **half)
        self.down, self.tail = nn.ModuleList(), nn.ModuleList()
        for i in range(clusters):
            inner = dim // div ** (i + 1)
            self.down.append(nn.Linear(dim, inner, bias=False, **half))
            self.tail.append(nn.Linear(inner, self.ends[i + 1] - self.ends[i], **half))

    def forward(self, h, target):
        first = self.ends[0]
        head = F.log_softmax(self.head(h).float(), dim=-1)
        logp = head.gather(1, target.clamp(max=first - 1)[:, None])[:, 0]
        for i, (down, tail) in enumerate(zip(self.down, self.tail)):
            low, high = self.ends[i], self.ends[i + 1]
            inside = (target >= low) & (target < high)
            local = (target - low).clamp(0, high - low - 1)
            rows = F.log_softmax(tail(down(h)).float(), dim=-1)
            word = rows.gather(1, local[:, None])[:, 0]
            logp = torch.where(inside, head[:, first + i] + word, logp)
        return -logp, -logp.mean()


ROWS, DIM, VOCAB = 160, 1024, 267735


def get_inputs():
    return [torch.randn(ROWS, DIM).half(), torch.randint(0, VOCAB, (ROWS,))]


def get_init_inputs():
    return [DIM, [20000, 40000, 200000], VOCAB, 4]
