import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Inputs of the matrix-memory cell of an mLSTM block (xLSTM): q and k come from the mixed activations and v from the
    plain branch by block-diagonal projections of 4 x 4 blocks, then input and forget gates per head are linear in the
    concatenation of all three. Heads come first in the outputs and the key is scaled."""

    def __init__(self, inner, block, heads):
        super().__init__()
        self.block, self.heads = block, heads
        shape, bf = (inner // block, block, block), torch.bfloat16
        self.wq = nn.Parameter((torch.randn(shape) / block ** 0.5).to(bf))
        self.wk = nn.Parameter((torch.randn(shape) / block ** 0.5).to(bf))
        self.wv = nn.Parameter((torch.randn(shape) / block ** 0.5).to(bf))
        self.igate = nn.Linear(3 * inner, heads, dtype=bf)
        self.fgate = nn.Linear(3 * inner, heads, dtype=bf)

    def headwise(self, x, w):
        y = torch.einsum("...gi,goi->...go", x.unflatten(-1, (-1, self.block)), w)
        return y.flatten(-2)

    def split(self, x):
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2).contiguous()

    def forward(self, mixed, plain):
        q = self.headwise(mixed, self.wq)
        k = self.headwise(mixed, self.wk)
        v = self.headwise(plain, self.wv)
        joint = torch.cat((q, k, v), dim=-1)
        i = self.igate(joint).float().transpose(1, 2)
        f = F.logsigmoid(self.fgate(joint).float() + 3.0).transpose(1, 2)
        d = q.shape[-1] // self.heads
        return self.split(q), self.split(k) * d ** -0.5, self.split(v), i, f


BATCH, SEQ, INNER = 2, 1024, 2048


def get_inputs():
    mixed = F.silu(torch.randn(BATCH, SEQ, INNER)).to(torch.bfloat16)
    return [mixed, torch.randn(BATCH, SEQ, INNER).to(torch.bfloat16)]


def get_init_inputs():
    return [INNER, 4, 4]
