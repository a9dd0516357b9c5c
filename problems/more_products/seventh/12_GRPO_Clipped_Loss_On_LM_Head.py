import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """GRPO objective from hidden states: token log-probabilities, clipped importance ratio, k3 KL to the reference, masked mean per sequence."""

    def __init__(self, dim, vocab, temperature, clip_lo, clip_hi, beta):
        super().__init__()
        self.temperature, self.lo, self.hi, self.beta = temperature, clip_lo, clip_hi, beta
        self.head = nn.Linear(dim, vocab, bias=False).to(torch.bfloat16)

    def forward(self, h, ids, old_logp, ref_logp, adv, mask):
        logits = self.head(h).float() / self.temperature
        picked = logits.gather(-1, ids[..., None]).squeeze(-1)
        logp = picked - torch.logsumexp(logits, dim=-1)
        ratio = torch.exp(logp - old_logp)
        a = adv[:, None]
        surrogate = torch.minimum(ratio * a, ratio.clamp(1.0 - self.lo, 1.0 + self.hi) * a)
        gap = ref_logp - logp
        kl = torch.exp(gap) - gap - 1.0
        loss = (self.beta * kl - surrogate) * mask
        return (loss.sum(-1) / mask.sum(-1)).mean(), logp, loss


B, T, DIM, VOCAB = 4, 128, 2048, 32000


def get_inputs():
    return [
        (0.7 * torch.randn(B, T, DIM)).to(torch.bfloat16),
        torch.randint(0, VOCAB, (B, T)),
        -10.4 + 0.2 * torch.randn(B, T),
        -10.4 + 0.2 * torch.randn(B, T),
        torch.randn(B),
        (torch.arange(T)[None, :] < torch.tensor([128, 91, 117, 64])[:, None]).float(),
    ]


def get_init_inputs():
    return [DIM, VOCAB, 0.9, 0.2, 0.28, 0.04]
