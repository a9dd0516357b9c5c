import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Mult-VAE recommender on MovieLens-20M (20108 items): unit-length click vector, tanh encoder to mean and log
    variance, decoder from the mean, multinomial log-likelihood over all items and the KL term, as used when a model
    is validated. Returns both terms per user and the annealed objective."""

    def __init__(self, items, hidden, latent, anneal):
        super().__init__()
        self.anneal = anneal
        self.enc1 = nn.Linear(items, hidden)
        self.enc2 = nn.Linear(hidden, 2 * latent)
        self.dec1 = nn.Linear(latent, hidden)
        self.dec2 = nn.Linear(hidden, items)

    def forward(self, clicks):
        h = torch.tanh(self.enc1(F.normalize(clicks, dim=-1)))
        mu, logvar = self.enc2(h).chunk(2, dim=-1)
        logits = self.dec2(torch.tanh(self.dec1(mu)))
        nll = -(F.log_softmax(logits, dim=-1) * clicks).sum(-1)
        kl = 0.5 * (logvar.exp() + mu * mu - 1 - logvar).sum(-1)
        return nll, kl, (nll + self.anneal * kl).mean()


USERS, ITEMS = 500, 20108


def get_inputs():
    return [(torch.rand(USERS, ITEMS) < 0.007).float()]


def get_init_inputs():
    return [ITEMS, 600, 200, 0.2]
