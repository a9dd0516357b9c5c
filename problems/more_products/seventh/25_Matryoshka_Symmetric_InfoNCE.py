import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Matryoshka embedding loss: one shared projection, then symmetric in-batch contrastive losses over nested truncated widths, weighted."""

    def __init__(self, dim, widths, temperature):
        super().__init__()
        self.widths, self.temperature = widths, temperature
        self.proj = nn.Linear(dim, dim).to(torch.bfloat16)

    def forward(self, a, b, weights):
        a, b = self.proj(a), self.proj(b)
        losses = []
        for w in self.widths:
            ea = F.normalize(a[:, :w].float(), dim=-1).to(a.dtype)
            eb = F.normalize(b[:, :w].float(), dim=-1).to(a.dtype)
            s = (ea @ eb.t()).float() / self.temperature
            d = s.diagonal()
            losses.append((0.5 * (s.logsumexp(1) + s.logsumexp(0)) - d).mean())
        each = torch.stack(losses)
        return (each * weights).sum(), each


N, DIM = 1536, 768


def get_inputs():
    base = torch.randn(N, DIM)
    return [
        (base + 1.1 * torch.randn(N, DIM)).to(torch.bfloat16),
        (base + 1.1 * torch.randn(N, DIM)).to(torch.bfloat16),
        torch.tensor([0.3, 0.25, 0.2, 0.15, 0.1]),
    ]


def get_init_inputs():
    return [DIM, [768, 512, 256, 128, 64], 0.07]
