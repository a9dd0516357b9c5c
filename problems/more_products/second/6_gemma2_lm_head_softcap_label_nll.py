import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, hidden, vocab, cap):
        super().__init__()
        self.norm_weight = nn.Parameter(torch.zeros(hidden, dtype=torch.bfloat16))
        self.lm_head = nn.Linear(hidden, vocab, bias=False, dtype=torch.bfloat16)
        self.cap = cap

    def forward(self, hidden, labels):
        h = hidden.float()
        h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)
        h = (h * (1.0 + self.norm_weight.float())).type_as(hidden)
        logits = self.lm_head(h)
        logits = torch.tanh(logits / self.cap) * self.cap
        logits = logits.float()
        picked = logits.gather(-1, labels[:, None]).squeeze(-1)
        return torch.logsumexp(logits, dim=-1) - picked


def get_inputs():
    return [
        torch.randn(8, 2304, dtype=torch.bfloat16),
        torch.randint(0, 256000, (8,)),
    ]


def get_init_inputs():
    return [2304, 256000, 30.0]
