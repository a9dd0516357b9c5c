import math
import torch
import torch.nn as nn

ROWS, HID, EMB, EXPERTS, VOCAB = 420, 620, 280, 10, 10007


class Model(nn.Module):
    """Mixture of softmaxes output layer: 10 tanh contexts per row share the decoder; returns the log of the mixed
    distribution and the mean negative log-likelihood of the targets."""

    def __init__(self, hid, emb, experts, vocab):
        super().__init__()
        self.prior = nn.Linear(hid, experts, bias=False)
        self.latent = nn.Linear(hid, experts * emb)
        self.decoder = nn.Parameter(1.5 * torch.randn(vocab, emb) / math.sqrt(emb))
        self.dec_bias = nn.Parameter(0.1 * torch.randn(vocab))
        self.experts, self.emb = experts, emb
        self.to(torch.bfloat16)

    def forward(self, h, target):
        n = h.shape[0]
        ctx = torch.tanh(self.latent(h)).view(n * self.experts, self.emb)
        logits = torch.addmm(self.dec_bias, ctx, self.decoder.t())
        prob = torch.softmax(logits.float(), dim=-1).view(n, self.experts, -1)
        mix = torch.softmax(self.prior(h).float(), dim=-1)
        logp = torch.log(torch.bmm(mix[:, None, :], prob).squeeze(1) + 1e-8)
        return logp, -logp.gather(1, target[:, None]).mean()


def get_inputs():
    return [torch.randn(ROWS, HID, dtype=torch.bfloat16), torch.randint(0, VOCAB, (ROWS,))]


def get_init_inputs():
    return [HID, EMB, EXPERTS, VOCAB]
