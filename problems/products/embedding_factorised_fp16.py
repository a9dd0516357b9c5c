"""Embeddings of few columns, positions and a layer norm, then the projection to the model's width, as in ALBERT."""
import torch
import torch.nn.functional as F

WORKLOADS = {
    "small": {"B": 2, "T": 128, "V": 30000, "E": 128, "C": 768},
    "middle": {"B": 16, "T": 384, "V": 30000, "E": 128, "C": 2048},
    "large": {"B": 32, "T": 512, "V": 30000, "E": 128, "C": 4096},
}


class Model(torch.nn.Module):
    def __init__(self, V, E, C):
        super().__init__()
        self.words = torch.nn.Parameter(torch.randn(V, E, dtype=torch.float16))
        self.positions = torch.nn.Parameter(0.5 * torch.randn(512, E, dtype=torch.float16))
        self.norm = torch.nn.Parameter((1 + 0.1 * torch.randn(E)).half())
        self.norm_bias = torch.nn.Parameter(0.1 * torch.randn(E, dtype=torch.float16))
        self.weight = torch.nn.Parameter(torch.randn(C, E, dtype=torch.float16) * E ** -0.5)
        self.bias = torch.nn.Parameter(0.1 * torch.randn(C, dtype=torch.float16))

    def forward(self, ids):
        h = F.embedding(ids, self.words) + self.positions[:ids.shape[1]]
        h = F.layer_norm(h, h.shape[-1:], self.norm, self.norm_bias, eps=1e-12)
        return F.linear(h, self.weight, self.bias)


def get_inputs(B=2, T=128, V=30000, E=128, C=768):
    return [torch.randint(0, V, (B, T))]


def get_init_inputs(B=2, T=128, V=30000, E=128, C=768):
    return [V, E, C]
