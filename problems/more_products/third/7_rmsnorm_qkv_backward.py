import torch
import torch.nn as nn

BATCH, SEQ, HIDDEN, QH, KVH, HD = 3, 1000, 1536, 12, 2, 128


class Model(nn.Module):
    """Backward through RMSNorm followed by biased q/k/v projections (Qwen2.5-1.5B):
    input gradient (with residual gradient added), norm-weight gradient, packed weight and bias gradients."""

    def __init__(self, hidden: int, q_dim: int, kv_dim: int, eps: float):
        super().__init__()
        self.eps = eps
        self.gamma = nn.Parameter(torch.rand(hidden, dtype=torch.bfloat16) + 0.5)
        self.wq = nn.Parameter(torch.randn(q_dim, hidden, dtype=torch.bfloat16) * hidden ** -0.5)
        self.wk = nn.Parameter(torch.randn(kv_dim, hidden, dtype=torch.bfloat16) * hidden ** -0.5)
        self.wv = nn.Parameter(torch.randn(kv_dim, hidden, dtype=torch.bfloat16) * hidden ** -0.5)

    def forward(self, dq, dk, dv, x, d_residual):
        # dq, dk, dv: (batch, heads, seq, head_dim) as an attention backward leaves them
        dq = dq.transpose(1, 2).flatten(2).flatten(0, 1)
        dk = dk.transpose(1, 2).flatten(2).flatten(0, 1)
        dv = dv.transpose(1, 2).flatten(2).flatten(0, 1)
        xf = x.flatten(0, 1).float()
        rstd = torch.rsqrt(xf.square().mean(-1, keepdim=True) + self.eps)
        xhat = xf * rstd
        xn = (xhat * self.gamma.float()).to(x.dtype)
        dqkv = torch.cat((dq, dk, dv), dim=-1)
        dw = dqkv.t() @ xn
        db = dqkv.float().sum(0).to(x.dtype)
        dxn = (dq @ self.wq + dk @ self.wk + dv @ self.wv).float()
        dgamma = (dxn * xhat).sum(0).to(x.dtype)
        dxhat = dxn * self.gamma.float()
        dx = rstd * (dxhat - xhat * (dxhat * xhat).mean(-1, keepdim=True))
        dx = dx.view_as(x) + d_residual.float()
        return dx.to(x.dtype), dgamma, dw, db


def get_inputs():
    return [
        0.05 * torch.randn(BATCH, QH, SEQ, HD, dtype=torch.bfloat16),
        0.05 * torch.randn(BATCH, KVH, SEQ, HD, dtype=torch.bfloat16),
        0.05 * torch.randn(BATCH, KVH, SEQ, HD, dtype=torch.bfloat16),
        torch.randn(BATCH, SEQ, HIDDEN, dtype=torch.bfloat16),
        0.05 * torch.randn(BATCH, SEQ, HIDDEN, dtype=torch.bfloat16),
    ]


def get_init_inputs():
    return [HIDDEN, QH * HD, KVH * HD, 1e-6]
