import torch
import torch.nn as nn


class Model(nn.Module):
    """AWQ weight-only projection: eight nibbles per int32 in interleaved order, packed zero points, groups of 128, biased fused QKV."""

    def __init__(self, hidden, n_q, n_kv, group):
        super().__init__()
        self.group, self.sizes = group, [n_q, n_kv, n_kv]
        n = n_q + 2 * n_kv
        self.register_buffer("qweight", torch.randint(-2 ** 31, 2 ** 31, (hidden, n // 8), dtype=torch.int64).to(torch.int32))
        self.register_buffer("qzeros", torch.randint(-2 ** 31, 2 ** 31, (hidden // group, n // 8), dtype=torch.int64).to(torch.int32))
        self.register_buffer("scales", ((0.1 + 0.1 * torch.rand(hidden // group, n)) / hidden ** 0.5).to(torch.float16))
        self.register_buffer("bias", (0.2 * torch.randn(n)).to(torch.float16))
        self.register_buffer("shifts", torch.tensor([0, 16, 4, 20, 8, 24, 12, 28], dtype=torch.int32))

    def unpack(self, p):
        return ((p[:, :, None] >> self.shifts) & 15).reshape(p.shape[0], -1)

    def forward(self, x):
        q = self.unpack(self.qweight)
        k, n = q.shape
        z = self.unpack(self.qzeros)
        w = (q.view(-1, self.group, n) - z[:, None, :]).to(x.dtype) * self.scales[:, None, :]
        y = x @ w.view(k, n) + self.bias
        q, k, v = y.split(self.sizes, dim=-1)
        return q.contiguous(), k.contiguous(), v.contiguous()


def get_inputs():
    return [torch.randn(48, 3584).to(torch.float16)]


def get_init_inputs():
    return [3584, 3584, 512, 128]
