import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.to_qkv = nn.Linear(dim, 3 * dim, dtype=torch.bfloat16)
        self.add_qkv = nn.Linear(dim, 3 * dim, dtype=torch.bfloat16)

    def forward(self, x, context, x_shift, x_scale, c_shift, c_scale):
        D = x.shape[-1]
        xn = F.layer_norm(x, (D,), eps=1e-6) * (1 + x_scale.unsqueeze(1)) + x_shift.unsqueeze(1)
        cn = F.layer_norm(context, (D,), eps=1e-6) * (1 + c_scale.unsqueeze(1)) + c_shift.unsqueeze(1)
        qkv = torch.cat([self.to_qkv(xn), self.add_qkv(cn)], dim=1)
        B, L, _ = qkv.shape
        q, k, v = [p.view(B, L, self.heads, -1).transpose(1, 2) for p in qkv.chunk(3, dim=-1)]
        return torch.stack([F.normalize(q.float(), dim=-1).to(v.dtype), F.normalize(k.float(), dim=-1).to(v.dtype), v])


def get_inputs():
    return [
        torch.randn(2, 1024, 1536, dtype=torch.bfloat16),
        torch.randn(2, 154, 1536, dtype=torch.bfloat16),
        torch.randn(2, 1536, dtype=torch.bfloat16),
        torch.randn(2, 1536, dtype=torch.bfloat16),
        torch.randn(2, 1536, dtype=torch.bfloat16),
        torch.randn(2, 1536, dtype=torch.bfloat16),
    ]


def get_init_inputs():
    return [1536, 24]
