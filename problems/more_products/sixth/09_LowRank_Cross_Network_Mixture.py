import torch
import torch.nn as nn


class Model(nn.Module):
    """DCN-v2 mixture of low-rank cross layers with softmax gates over the experts."""

    def __init__(self, dim, rank, experts, layers):
        super().__init__()
        self.layers = layers
        self.U = nn.Parameter(torch.randn(layers, experts, rank, dim) / rank ** 0.5)
        self.V = nn.Parameter(torch.randn(layers, experts, dim, rank) / dim ** 0.5)
        self.C = nn.Parameter(torch.randn(layers, experts, rank, rank) / rank ** 0.5)
        self.b = nn.Parameter(0.1 * torch.randn(layers, dim))
        self.gate = nn.ModuleList([nn.Linear(dim, experts, bias=False) for _ in range(layers)])

    def forward(self, x0):
        x = x0
        for i in range(self.layers):
            g = torch.softmax(self.gate[i](x), dim=-1)
            v = torch.tanh(torch.matmul(x.unsqueeze(0), self.V[i]))
            v = torch.tanh(torch.bmm(v, self.C[i]))
            u = torch.bmm(v, self.U[i]) + self.b[i]
            u = x0.unsqueeze(0) * u
            x = x + torch.einsum("ebd,be->bd", u, g)
        return x


def get_inputs():
    return [torch.randn(2048, 845)]


def get_init_inputs():
    return [845, 64, 4, 3]
