"""Multi-tenant LoRA: base linear plus each row's own adapter, gathered by index, with its own scaling."""
import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS, D, N, R, ADAPTERS = 48, 4096, 6144, 16, 12

class Model(nn.Module):
    def __init__(self, d, n, r, adapters):
        super().__init__()
        self.weight = nn.Parameter((torch.randn(n, d) * d ** -0.5).bfloat16())
        self.a = nn.Parameter((torch.randn(adapters, r, d) * d ** -0.5).bfloat16())
        self.b = nn.Parameter((torch.randn(adapters, n, r) * r ** -0.5).bfloat16())
        self.scaling = nn.Parameter((0.5 + torch.rand(adapters)).bfloat16())

    def forward(self, x, index):
        base = F.linear(x, self.weight)
        down = torch.bmm(self.a[index], x.unsqueeze(-1))
        up = torch.bmm(self.b[index], down).squeeze(-1)
        return base + up * self.scaling[index].unsqueeze(-1)

def get_inputs():
    return [torch.randn(ROWS, D).bfloat16(), torch.randint(0, ADAPTERS, (ROWS,))]

def get_init_inputs():
    return [D, N, R, ADAPTERS]
