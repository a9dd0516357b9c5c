import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.proj = nn.Linear(hidden, hidden, dtype=torch.bfloat16)

    def forward(self, grad, attn, gate):
        B, H, L, D = attn.shape
        merged = attn.transpose(1, 2).reshape(B, L, H * D)
        out = self.proj(merged)
        d_gate = (grad.float() * out.float()).sum(dim=1).to(grad.dtype)
        d_out = grad * gate.unsqueeze(1)
        d_attn = (d_out @ self.proj.weight).view(B, L, H, D).permute(0, 2, 1, 3).contiguous()
        flat = d_out.flatten(0, 1)
        d_weight = flat.t() @ merged.flatten(0, 1)
        d_bias = flat.sum(0)
        return d_attn, d_gate, d_weight, d_bias


def get_inputs():
    return [
        torch.randn(1, 4680, 3072, dtype=torch.bfloat16),
        torch.randn(1, 24, 4680, 128, dtype=torch.bfloat16),
        torch.randn(1, 3072, dtype=torch.bfloat16),
    ]


def get_init_inputs():
    return [3072, 24]
