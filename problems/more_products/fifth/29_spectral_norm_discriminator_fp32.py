import math
import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH, D_IN, HIDDEN, D_FEAT, CLASSES = 256, 2048, 4096, 2048, 1000


class Model(nn.Module):
    """Projection discriminator head: spectrally normalised layers (one power iteration each in the forward), class scores, hinge loss."""

    def __init__(self, d_in, hidden, d_feat, classes):
        super().__init__()
        self.w1 = nn.Parameter(torch.randn(hidden, d_in) / math.sqrt(d_in))
        self.b1 = nn.Parameter(0.1 * torch.randn(hidden))
        self.w2 = nn.Parameter(torch.randn(d_feat, hidden) / math.sqrt(hidden))
        self.b2 = nn.Parameter(0.1 * torch.randn(d_feat))
        self.embed = nn.Parameter(torch.randn(classes, d_feat) / math.sqrt(d_feat))
        self.psi = nn.Parameter(torch.randn(1, d_feat) / math.sqrt(d_feat))

    def spectral(self, w, u):
        v = F.normalize(w.t() @ u, dim=0, eps=1e-12)
        u = F.normalize(w @ v, dim=0, eps=1e-12)
        sigma = torch.dot(u, w @ v)
        return w / sigma, u, sigma

    def forward(self, x, labels, sign, u1, u2, ue):
        w1, u1, s1 = self.spectral(self.w1, u1)
        w2, u2, s2 = self.spectral(self.w2, u2)
        we, ue, se = self.spectral(self.embed, ue)
        h = F.leaky_relu(F.linear(x, w1, self.b1), 0.2)
        h = F.leaky_relu(F.linear(h, w2, self.b2), 0.2)
        classes = F.linear(h, we)
        score = F.linear(h, self.psi).squeeze(1) + classes.gather(1, labels[:, None]).squeeze(1)
        loss = F.relu(1.0 - sign * score).mean()
        return loss, score, torch.log_softmax(classes, dim=1), u1, u2, ue, torch.stack([s1, s2, se])


def get_inputs():
    return [
        torch.randn(BATCH, D_IN),
        torch.randint(0, CLASSES, (BATCH,)),
        torch.sign(torch.randn(BATCH)),
        F.normalize(torch.randn(HIDDEN), dim=0),
        F.normalize(torch.randn(D_FEAT), dim=0),
        F.normalize(torch.randn(CLASSES), dim=0),
    ]


def get_init_inputs():
    return [D_IN, HIDDEN, D_FEAT, CLASSES]
