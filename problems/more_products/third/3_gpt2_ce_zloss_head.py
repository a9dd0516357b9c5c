import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH, SEQ, HIDDEN, VOCAB = 2, 1024, 768, 50257


class Model(nn.Module):
    """GPT-2 training head: final LayerNorm, tied 50257-word projection, shifted cross entropy with ignore mask and z-loss."""

    def __init__(self, hidden: int, vocab: int, z_coef: float):
        super().__init__()
        self.ln_f = nn.LayerNorm(hidden, dtype=torch.bfloat16)
        self.wte = nn.Parameter(torch.randn(vocab, hidden, dtype=torch.bfloat16) * hidden ** -0.5)
        self.z_coef = z_coef

    def forward(self, h, labels):
        h = self.ln_f(h)[:, :-1]
        tgt = labels[:, 1:]
        valid = tgt != -100
        logits = (h @ self.wte.t()).float()
        lse = torch.logsumexp(logits, dim=-1)
        picked = logits.gather(-1, tgt.clamp(min=0).unsqueeze(-1)).squeeze(-1)
        nll = (lse - picked) * valid
        count = valid.sum().clamp(min=1)
        z = (lse.square() * valid).sum() / count
        loss = nll.sum() / count + self.z_coef * z
        return loss, nll


def get_inputs():
    labels = torch.randint(0, VOCAB, (BATCH, SEQ))
    labels[:, -(SEQ // 8):] = -100
    return [torch.randn(BATCH, SEQ, HIDDEN, dtype=torch.bfloat16), labels]


def get_init_inputs():
    return [HIDDEN, VOCAB, 1e-4]
