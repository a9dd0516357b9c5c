import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS, IN_DIM, HID, BOTTLE, PROTOS = 64, 1024, 2048, 256, 65536


class Model(nn.Module):
    """DINO projection head and loss: 3-layer GELU MLP, L2-normalised bottleneck, weight-normalised prototypes,
    sharpened and centred teacher distribution, cross entropy, and the moving-average centre."""

    def __init__(self, in_dim: int, hid: int, bottle: int, protos: int, t_student: float, t_teacher: float):
        super().__init__()
        kw = dict(dtype=torch.bfloat16)
        self.l1 = nn.Linear(in_dim, hid, **kw)
        self.l2 = nn.Linear(hid, hid, **kw)
        self.l3 = nn.Linear(hid, bottle, **kw)
        self.v = nn.Parameter(torch.randn(protos, bottle, **kw) * 0.02)
        self.g = nn.Parameter(torch.rand(protos, 1, **kw) + 0.5)
        self.ts, self.tt = t_student, t_teacher

    def forward(self, cls, teacher_logits, center):
        z = self.l3(F.gelu(self.l2(F.gelu(self.l1(cls)))))
        z = F.normalize(z, dim=-1, p=2, eps=1e-6)
        vf = self.v.float()
        w = (self.g.float() * vf / vf.norm(dim=1, keepdim=True)).to(z.dtype)
        s = F.linear(z, w).float() / self.ts
        tl = teacher_logits.float()
        q = torch.softmax((tl - center) / self.tt, dim=-1)
        loss = -(q * torch.log_softmax(s, dim=-1)).sum(-1)
        new_center = 0.9 * center + 0.1 * tl.mean(0)
        return loss, new_center


def get_inputs():
    return [
        torch.randn(ROWS, IN_DIM, dtype=torch.bfloat16),
        0.3 * torch.randn(ROWS, PROTOS, dtype=torch.bfloat16),
        0.01 * torch.randn(PROTOS),
    ]


def get_init_inputs():
    return [IN_DIM, HID, BOTTLE, PROTOS, 0.1, 0.04]
