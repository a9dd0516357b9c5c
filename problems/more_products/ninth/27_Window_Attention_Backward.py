import torch
import torch.nn as nn


class Model(nn.Module):
    """Backward pass of the attention inside 7 by 7 windows (Swin), half, written out from the packed queries, keys and
    values: the relative position bias is gathered from its table, the probabilities over 49 tokens are computed anew.
    Returns the packed gradient and the float32 gradient of the bias table, summed over windows."""

    def __init__(self, heads, side):
        super().__init__()
        self.table = nn.Parameter(0.5 * torch.randn((2 * side - 1) ** 2, heads))
        r = torch.arange(side * side)
        y, x = r // side, r % side
        index = (y[:, None] - y[None, :] + side - 1) * (2 * side - 1) + x[:, None] - x[None, :] + side - 1
        self.register_buffer("index", index.flatten())

    def forward(self, qkv, dout):
        windows, n, _, heads, d = qkv.shape
        q, k, v = qkv.permute(2, 0, 3, 1, 4).reshape(3, windows * heads, n, d).unbind(0)
        do = dout.reshape(windows, n, heads, d).transpose(1, 2).reshape(windows * heads, n, d)

        bias = self.table[self.index].t().reshape(1, heads, n, n)
        s = torch.bmm(q, k.transpose(1, 2)).float().reshape(windows, heads, n, n) * d**-0.5 + bias
        p = torch.softmax(s, dim=-1).reshape(windows * heads, n, n)

        dv = torch.bmm(p.half().transpose(1, 2), do)
        dp = torch.bmm(do, v.transpose(1, 2)).float()
        ds = p * (dp - (p * dp).sum(dim=-1, keepdim=True))
        dbias = ds.reshape(windows, heads, n * n).sum(dim=0).t()
        dtable = torch.zeros_like(self.table).index_add(0, self.index, dbias)
        ds = (ds * d**-0.5).half()
        dq, dk = torch.bmm(ds, k), torch.bmm(ds.transpose(1, 2), q)
        dqkv = torch.stack((dq, dk, dv)).reshape(3, windows, heads, n, d).permute(1, 3, 0, 2, 4)
        return dqkv.contiguous(), dtable


WINDOWS, SIDE, HEADS, HEAD_DIM = 512, 7, 4, 32


def get_inputs():
    return [
        torch.randn(WINDOWS, SIDE * SIDE, 3, HEADS, HEAD_DIM).half(),
        torch.randn(WINDOWS, SIDE * SIDE, HEADS * HEAD_DIM).half(),
    ]


def get_init_inputs():
    return [HEADS, SIDE]
