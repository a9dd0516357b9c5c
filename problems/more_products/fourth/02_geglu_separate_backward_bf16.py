import math
import torch
import torch.nn as nn

BATCH, SEQ, DIM, FFN = 4, 512, 1024, 2816


class Model(nn.Module):
    """Hand-written backward of the T5 v1.1 GeGLU block, wo(gelu_tanh(x wi0) * (x wi1)), two separate products."""

    def __init__(self, dim, ffn):
        super().__init__()
        self.wi0 = nn.Parameter(torch.randn(dim, ffn) / math.sqrt(dim))
        self.wi1 = nn.Parameter(torch.randn(dim, ffn) / math.sqrt(dim))
        self.wo = nn.Parameter(torch.randn(ffn, dim) / math.sqrt(ffn))
        self.to(torch.bfloat16)

    def forward(self, x, dy):
        x = x.reshape(-1, x.shape[-1])
        g = dy.reshape(-1, dy.shape[-1])
        a = (x @ self.wi0).float()
        b = (x @ self.wi1).float()
        c = math.sqrt(2.0 / math.pi)
        t = torch.tanh(c * (a + 0.044715 * a * a * a))
        act = 0.5 * a * (1.0 + t)
        dact = 0.5 * (1.0 + t) + 0.5 * a * (1.0 - t * t) * c * (1.0 + 3 * 0.044715 * a * a)
        h = (act * b).to(x.dtype)
        d_wo = h.t() @ g
        dh = (g @ self.wo.t()).float()
        da = (dh * b * dact).to(x.dtype)
        db = (dh * act).to(x.dtype)
        dx = torch.addmm(db @ self.wi1.t(), da, self.wi0.t())
        return dx.view(dy.shape), x.t() @ da, x.t() @ db, d_wo


def get_inputs():
    return [
        torch.randn(BATCH, SEQ, DIM, dtype=torch.bfloat16),
        0.1 * torch.randn(BATCH, SEQ, DIM, dtype=torch.bfloat16),
    ]


def get_init_inputs():
    return [DIM, FFN]
