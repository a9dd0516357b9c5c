import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Orthogonal fine-tuning of a frozen linear layer (OFT, input-centred): for every block of 32 input features a skew
    matrix is unpacked from 496 learned numbers, turned into a nearly orthogonal one by the Cayley transform with a
    truncated Neumann series, and applied to the activations before the frozen bfloat16 product."""

    def __init__(self, d_in, d_out, block, terms):
        super().__init__()
        self.block, self.terms = block, terms
        count = block * (block - 1) // 2
        self.packed = nn.Parameter(0.02 * torch.randn(d_in // block, count))
        self.frozen = nn.Linear(d_in, d_out, dtype=torch.bfloat16)
        rows, cols = torch.triu_indices(block, block, 1)
        place = torch.zeros(block, block, dtype=torch.long)
        sign = torch.zeros(block, block)
        place[rows, cols] = place[cols, rows] = torch.arange(count)
        sign[rows, cols], sign[cols, rows] = 1.0, -1.0
        self.register_buffer("place", place.flatten())
        self.register_buffer("sign", sign)
        self.register_buffer("eye", torch.eye(block))

    def rotation(self):
        q = self.packed.index_select(1, self.place).view(-1, self.block, self.block) * self.sign
        power, series = q, self.eye + q
        for _ in range(self.terms - 1):
            power = power @ q
            series = series + power
        return (self.eye + q) @ series

    def forward(self, x):
        r = self.rotation().to(x.dtype)
        blocks = x.unflatten(-1, (-1, self.block))
        turned = torch.einsum("...gi,gio->...go", blocks, r).flatten(-2)
        return self.frozen(turned)


BATCH, SEQ, D_IN, D_OUT = 2, 384, 4096, 4096


def get_inputs():
    return [torch.randn(BATCH, SEQ, D_IN).to(torch.bfloat16)]


def get_init_inputs():
    return [D_IN, D_OUT, 32, 5]
