import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH, GROUPS, CLASSES, ACTION, HID, DETER = 64, 32, 32, 17, 1000, 1500


class Model(nn.Module):
    """One Dreamer world-model state update for 64 environments: reset by the is-first flag, input projection,
    layer-normed GRU cell h' = f(Wx + Uh), and the categorical prior with 1% uniform mixing."""

    def __init__(self, groups: int, classes: int, action: int, hid: int, deter: int):
        super().__init__()
        kw = dict(dtype=torch.float16)
        self.groups, self.classes = groups, classes
        self.inp = nn.Linear(groups * classes + action, hid, bias=False, **kw)
        self.inp_ln = nn.LayerNorm(hid, **kw)
        self.w = nn.Linear(hid, 3 * deter, bias=False, **kw)
        self.u = nn.Linear(deter, 3 * deter, bias=False, **kw)
        self.gate_ln = nn.LayerNorm(3 * deter, **kw)
        self.p1 = nn.Linear(deter, hid, bias=False, **kw)
        self.p1_ln = nn.LayerNorm(hid, **kw)
        self.p2 = nn.Linear(hid, groups * classes, **kw)

    def forward(self, stoch, action, deter, is_first):
        keep = (1.0 - is_first).unsqueeze(-1)
        x = torch.cat((stoch.flatten(1) * keep, action * keep), dim=-1)
        deter = deter * keep
        x = F.silu(self.inp_ln(self.inp(x)))
        r, c, z = self.gate_ln(self.w(x) + self.u(deter)).chunk(3, dim=-1)
        c = torch.tanh(torch.sigmoid(r) * c)
        z = torch.sigmoid(z - 1.0)
        h = z * c + (1.0 - z) * deter
        logits = self.p2(F.silu(self.p1_ln(self.p1(h))))
        p = torch.softmax(logits.float().unflatten(-1, (self.groups, self.classes)), dim=-1)
        return h, torch.log(0.99 * p + 0.01 / self.classes)


def get_inputs():
    stoch = F.one_hot(torch.randint(0, CLASSES, (BATCH, GROUPS)), CLASSES).half()
    return [
        stoch,
        torch.randn(BATCH, ACTION, dtype=torch.float16),
        torch.tanh(torch.randn(BATCH, DETER)).half(),
        (torch.rand(BATCH) < 0.1).half(),
    ]


def get_init_inputs():
    return [GROUPS, CLASSES, ACTION, HID, DETER]
