import torch
import torch.nn as nn

BATCH, CHUNKS, CHUNK, HEADS, HEAD_DIM, STATE = 2, 8, 256, 80, 64, 128


class Model(nn.Module):
    """Mamba-2 SSD, the chunk-local part: decayed C B^T product with x inside a chunk, D skip, and each chunk's end state."""

    def __init__(self, heads):
        super().__init__()
        self.a_log = nn.Parameter(torch.log(1.0 + 3.0 * torch.rand(heads)))
        self.d = nn.Parameter(torch.rand(heads))

    def forward(self, x, dt, b, c):
        l = x.shape[2]
        a = -torch.exp(self.a_log)
        cum = torch.cumsum(dt * a, dim=2).permute(0, 1, 3, 2)
        seg = cum[..., :, None] - cum[..., None, :]
        causal = torch.ones(l, l, dtype=torch.bool, device=x.device).tril()
        decay = torch.exp(seg.masked_fill(~causal, float("-inf")))
        xdt = x * dt[..., None].to(x.dtype)
        cb = torch.einsum("bcln,bcsn->bcls", c, b)
        mix = (cb[:, :, None].float() * decay).to(x.dtype)
        y = torch.einsum("bchls,bcshp->bclhp", mix, xdt)
        y = y + self.d[:, None].to(x.dtype) * x
        to_end = torch.exp(cum[..., -1:] - cum).permute(0, 1, 3, 2)
        states = torch.einsum("bcln,bclhp->bchpn", b, xdt * to_end[..., None].to(x.dtype))
        return y, states, cum[..., -1]


def get_inputs():
    return [
        torch.randn(BATCH, CHUNKS, CHUNK, HEADS, HEAD_DIM, dtype=torch.bfloat16),
        0.001 + 0.05 * torch.rand(BATCH, CHUNKS, CHUNK, HEADS),
        torch.randn(BATCH, CHUNKS, CHUNK, STATE, dtype=torch.bfloat16),
        (torch.randn(BATCH, CHUNKS, CHUNK, STATE) / STATE**0.5).to(torch.bfloat16),
    ]


def get_init_inputs():
    return [HEADS]
