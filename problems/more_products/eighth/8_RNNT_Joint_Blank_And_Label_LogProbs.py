import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Joint network of an RNN transducer (speech recognition, 256 word pieces and blank): encoder frames and predictor
    states are projected, added for every (frame, position) pair, passed through tanh and the output layer. Only the
    log-probabilities of blank and of the next label are kept, which is what the transducer loss needs."""

    def __init__(self, enc, pred, joint, vocab):
        super().__init__()
        kw = dict(dtype=torch.bfloat16)
        self.enc = nn.Linear(enc, joint, **kw)
        self.pred = nn.Linear(pred, joint, bias=False, **kw)
        self.out = nn.Linear(joint, vocab, **kw)

    def forward(self, frames, states, labels):
        joint = torch.tanh(self.enc(frames)[:, :, None, :] + self.pred(states)[:, None, :, :])
        logits = self.out(joint).float()
        norm = torch.logsumexp(logits, dim=-1)
        blank = logits[..., 0] - norm
        index = labels[:, None, :, None].expand(-1, logits.shape[1], -1, 1)
        label = logits[:, :, :-1].gather(-1, index)[..., 0] - norm[:, :, :-1]
        return blank, label


BATCH, FRAMES, LABELS, ENC, PRED, JOINT, VOCAB = 6, 250, 32, 512, 640, 640, 257


def get_inputs():
    bf = torch.bfloat16
    return [
        torch.randn(BATCH, FRAMES, ENC).to(bf),
        torch.randn(BATCH, LABELS + 1, PRED).to(bf),
        torch.randint(1, VOCAB, (BATCH, LABELS)),
    ]


def get_init_inputs():
    return [ENC, PRED, JOINT, VOCAB]
