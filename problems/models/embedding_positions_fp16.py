"""Tokens' embeddings with those of their positions and their segments.

input tokens: i64[B, S] ~ integers(0, 1000)
input segments: i64[B, S] ~ integers(0, 2)
param table: f16[V, C] ~ normal(0, 0.02)
param positions: f16[S, C] ~ normal(0, 0.02)
param kinds: f16[2, C] ~ normal(0, 0.02)
y: f16[b: B, s: S, c: C] = f16(f32(table[tokens[b, s], c]) + f32(positions[s, c]) + f32(kinds[segments[b, s], c]))
output y
"""
import torch
import torch.nn.functional as F

WORKLOADS = {
    "small": {"B": 2, "S": 12, "V": 1000, "C": 768},
    "middle": {"B": 8, "S": 384, "V": 1000, "C": 1024},
    "large": {"B": 216, "S": 512, "V": 30522, "C": 1600},
}


class Model(torch.nn.Module):
    def __init__(self, S, V, C):
        super().__init__()
        self.table = torch.nn.Parameter((0.02 * torch.randn(V, C)).half())
        self.positions = torch.nn.Parameter((0.02 * torch.randn(S, C)).half())
        self.kinds = torch.nn.Parameter((0.02 * torch.randn(2, C)).half())

    def forward(self, tokens, segments):
        rows = F.embedding(tokens, self.table).float() + self.positions.float()
        return (rows + F.embedding(segments, self.kinds).float()).half()


def get_inputs(B=8, S=384, V=1000, C=1024):
    return [torch.randint(0, 1000, (B, S)), torch.randint(0, 2, (B, S))]


def get_init_inputs(B=8, S=384, V=1000, C=1024):
    return [S, V, C]
