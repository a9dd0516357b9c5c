import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 1


class Model(nn.Module):
    """Llama-3-8B MLP sub-block for one decoded token: residual add, RMSNorm, SwiGLU, residual."""

    def __init__(self, hidden: int, inter: int, eps: float):
        super().__init__()
        self.eps = eps
        self.norm_weight = nn.Parameter(torch.rand(hidden, dtype=torch.bfloat16) + 0.5)
        self.gate_proj = nn.Linear(hidden, inter, bias=False, dtype=torch.bfloat16)
        self.up_proj = nn.Linear(hidden, inter, bias=False, dtype=torch.bfloat16)
        self.down_proj = nn.Linear(inter, hidden, bias=False, dtype=torch.bfloat16)
        for lin in (self.gate_proj, self.up_proj, self.down_proj):
            nn.init.normal_(lin.weight, std=lin.in_features ** -0.5)

    def forward(self, attn_out, residual):
        h = attn_out + residual
        hf = h.float()
        hf = hf * torch.rsqrt(hf.pow(2).mean(-1, keepdim=True) + self.eps)
        n = self.norm_weight * hf.to(h.dtype)
        y = self.down_proj(F.silu(self.gate_proj(n)) * self.up_proj(n))
        return h + y


def get_inputs():
    return [
        torch.randn(BATCH, 1, 4096, dtype=torch.bfloat16),
        torch.randn(BATCH, 1, 4096, dtype=torch.bfloat16),
    ]


def get_init_inputs():
    return [4096, 14336, 1e-5]
