import math
import torch
import torch.nn as nn
import torch.nn.functional as F

PAIRS, SEQ, DIM, VOCAB, BETA = 2, 256, 1408, 50257, 0.1


class Model(nn.Module):
    """DPO loss from hidden states: policy and reference LM heads, masked label log-probs, rewards of chosen and rejected, loss."""

    def __init__(self, dim, vocab, beta):
        super().__init__()
        w = torch.randn(vocab, dim) / math.sqrt(dim)
        self.head = nn.Parameter(w + 0.1 * torch.randn(vocab, dim) / math.sqrt(dim))
        self.ref_head = nn.Parameter(w)
        self.beta = beta
        self.to(torch.bfloat16)

    def logps(self, hidden, head, labels, mask):
        logits = (hidden[:, :-1] @ head.t()).float()
        tok = logits.gather(-1, labels[..., None]).squeeze(-1) - torch.logsumexp(logits, dim=-1)
        return (tok * mask).sum(-1)

    def forward(self, hidden, ref_hidden, labels):
        target = labels[:, 1:]
        mask = (target != -100).float()
        target = target.clamp(min=0)
        policy = self.logps(hidden, self.head, target, mask)
        ref = self.logps(ref_hidden, self.ref_head, target, mask)
        rewards = self.beta * (policy - ref)
        chosen, rejected = rewards.chunk(2)
        loss = -F.logsigmoid(chosen - rejected).mean()
        return loss, chosen, rejected, policy / mask.sum(-1)


def get_inputs():
    hidden = torch.randn(2 * PAIRS, SEQ, DIM)
    labels = torch.randint(0, VOCAB, (2 * PAIRS, SEQ))
    labels[:, : SEQ // 8] = -100
    return [
        hidden.to(torch.bfloat16),
        (hidden + 0.1 * torch.randn(2 * PAIRS, SEQ, DIM)).to(torch.bfloat16),
        labels,
    ]


def get_init_inputs():
    return [DIM, VOCAB, BETA]
