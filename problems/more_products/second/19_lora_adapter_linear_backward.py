import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, in_dim, out_dim, rank, alpha):
        super().__init__()
        self.scaling = alpha / rank
        self.base = nn.Linear(in_dim, out_dim, bias=False, dtype=torch.bfloat16)
        self.lora_A = nn.Linear(in_dim, rank, bias=False, dtype=torch.bfloat16)
        self.lora_B = nn.Linear(rank, out_dim, bias=False, dtype=torch.bfloat16)

    def forward(self, x, grad, keep):
        xd = x * keep
        xa = self.lora_A(xd)
        gb = torch.matmul(grad, self.lora_B.weight) * self.scaling
        dB = torch.einsum("blo,blr->or", grad, xa) * self.scaling
        dA = torch.einsum("blr,bli->ri", gb, xd)
        dx = torch.matmul(grad, self.base.weight) + torch.matmul(gb, self.lora_A.weight) * keep
        return dx, dA, dB


def get_inputs():
    return [
        torch.randn(2, 1000, 4096, dtype=torch.bfloat16),
        torch.randn(2, 1000, 4096, dtype=torch.bfloat16),
        (torch.rand(2, 1000, 4096) > 0.05).to(torch.bfloat16) / 0.95,
    ]


def get_init_inputs():
    return [4096, 4096, 16, 32]
