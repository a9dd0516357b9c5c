import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """DoRA: weight-decomposed low-rank adaptation of a frozen projection."""

    def __init__(self, in_f, out_f, rank, alpha):
        super().__init__()
        bf = torch.bfloat16
        self.scaling = alpha / rank
        w = torch.randn(out_f, in_f) / in_f ** 0.5
        self.weight = nn.Parameter(w.to(bf), requires_grad=False)
        self.bias = nn.Parameter((0.1 * torch.randn(out_f)).to(bf))
        self.lora_A = nn.Parameter((torch.randn(rank, in_f) / in_f ** 0.5).to(bf))
        self.lora_B = nn.Parameter((0.5 * torch.randn(out_f, rank) / rank ** 0.5).to(bf))
        self.magnitude = nn.Parameter((w.norm(dim=1) * (1 + 0.1 * torch.randn(out_f))).to(bf))

    def forward(self, x):
        merged = self.weight + self.scaling * (self.lora_B @ self.lora_A)
        norm = merged.float().pow(2).sum(dim=1).sqrt()
        mag = (self.magnitude.float() / norm).to(x.dtype)
        base = F.linear(x, self.weight)
        lora = F.linear(F.linear(x, self.lora_A), self.lora_B)
        return base * mag + lora * (mag * self.scaling) + self.bias


def get_inputs():
    return [torch.randn(3, 500, 2560).to(torch.bfloat16)]


def get_init_inputs():
    return [2560, 2048, 32, 64]
