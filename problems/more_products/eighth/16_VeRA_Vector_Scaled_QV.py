import torch
import torch.nn as nn


class Model(nn.Module):
    """VeRA fine-tuning of a grouped-query attention projection (Llama-3.2-3B sizes): the frozen pair of random matrices
    is shared by all layers and sliced to size, only the vectors d (rank) and b (output) are learned, and q and v get
    such an update on top of the frozen fused QKV weight."""

    def __init__(self, dim, q_dim, kv_dim, rank):
        super().__init__()
        bf = torch.bfloat16
        self.sizes = [q_dim, kv_dim, kv_dim]
        self.qkv = nn.Linear(dim, q_dim + 2 * kv_dim, bias=False, dtype=bf)
        self.register_buffer("a", (torch.randn(rank, dim) / dim ** 0.5).to(bf))
        self.register_buffer("b", (torch.randn(q_dim, rank) / rank ** 0.5).to(bf))
        self.d_q = nn.Parameter(0.1 + 0.02 * torch.randn(rank))
        self.d_v = nn.Parameter(0.1 + 0.02 * torch.randn(rank))
        self.b_q = nn.Parameter(0.5 * torch.randn(q_dim))
        self.b_v = nn.Parameter(0.5 * torch.randn(kv_dim))

    def forward(self, x):
        q, k, v = self.qkv(x).split(self.sizes, dim=-1)
        low = x @ self.a.t()
        up_q = (low * self.d_q).to(x.dtype) @ self.b.t()
        up_v = (low * self.d_v).to(x.dtype) @ self.b[: self.sizes[2]].t()
        q = q + (up_q * self.b_q).to(x.dtype)
        v = v + (up_v * self.b_v).to(x.dtype)
        return q, k, v


BATCH, SEQ, DIM = 4, 300, 3072


def get_inputs():
    return [torch.randn(BATCH, SEQ, DIM).to(torch.bfloat16)]


def get_init_inputs():
    return [DIM, 3072, 1024, 256]
