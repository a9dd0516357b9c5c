import torch
import torch.nn as nn
import torch.nn.functional as F

SEQ, HIDDEN, HEADS, HEAD_DIM = 1800, 2048, 16, 256


def norm1p(x, w):
    xf = x.float()
    xf = xf * torch.rsqrt(xf.pow(2).mean(-1, keepdim=True) + 1e-6)
    return (xf * (1.0 + w.float())).to(x.dtype)


class Model(nn.Module):
    """Attention exit during prefill (Qwen3-Next style): heads are merged, gated by sigmoid(x Wg), projected,
    sandwich-normed, added to the residual stream, and normed again for the MLP."""

    def __init__(self, hidden: int, heads: int, head_dim: int):
        super().__init__()
        self.gate = nn.Linear(hidden, heads * head_dim, bias=False, dtype=torch.bfloat16)
        self.o_proj = nn.Linear(heads * head_dim, hidden, bias=False, dtype=torch.bfloat16)
        self.post_norm = nn.Parameter(0.1 * torch.randn(hidden, dtype=torch.bfloat16))
        self.pre_mlp_norm = nn.Parameter(0.1 * torch.randn(hidden, dtype=torch.bfloat16))

    def forward(self, heads_out, x_normed, residual):
        b, h, s, d = heads_out.shape
        merged = heads_out.permute(0, 2, 1, 3).reshape(b, s, h * d)
        merged = merged * torch.sigmoid(self.gate(x_normed))
        y = norm1p(self.o_proj(merged), self.post_norm)
        res = residual + y
        return norm1p(res, self.pre_mlp_norm), res


def get_inputs():
    return [
        torch.randn(1, HEADS, SEQ, HEAD_DIM, dtype=torch.bfloat16),
        torch.randn(1, SEQ, HIDDEN, dtype=torch.bfloat16),
        torch.randn(1, SEQ, HIDDEN, dtype=torch.bfloat16),
    ]


def get_init_inputs():
    return [HIDDEN, HEADS, HEAD_DIM]
