import torch
import torch.nn as nn

ROWS, HIDDEN, OUT, RANK, ADAPTERS = 32, 3584, 4608, 16, 8


class Model(nn.Module):
    """Serving of many LoRA adapters in one decoding batch: base qkv projection with bias, plus for every row
    the low-rank update of its own adapter, gathered by index, with its own scale (adapter 0 is 'none')."""

    def __init__(self, hidden: int, out: int, rank: int, n_adapters: int):
        super().__init__()
        self.base = nn.Linear(hidden, out, dtype=torch.bfloat16)
        self.lora_a = nn.Parameter(torch.randn(n_adapters, rank, hidden, dtype=torch.bfloat16) * hidden ** -0.5)
        self.lora_b = nn.Parameter(torch.randn(n_adapters, out, rank, dtype=torch.bfloat16) * rank ** -0.5)
        scale = torch.linspace(0.0, 2.0, n_adapters)
        self.scale = nn.Parameter(scale.to(torch.bfloat16))

    def forward(self, x, adapter):
        y = self.base(x)
        a = self.lora_a.index_select(0, adapter)
        b = self.lora_b.index_select(0, adapter)
        low = torch.bmm(a, x.unsqueeze(-1)) * self.scale[adapter].view(-1, 1, 1)
        return torch.baddbmm(y.unsqueeze(-1), b, low).squeeze(-1)


def get_inputs():
    return [torch.randn(ROWS, HIDDEN, dtype=torch.bfloat16), torch.randint(0, ADAPTERS, (ROWS,))]


def get_init_inputs():
    return [HIDDEN, OUT, RANK, ADAPTERS]
