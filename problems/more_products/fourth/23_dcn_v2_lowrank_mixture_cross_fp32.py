import math
import torch
import torch.nn as nn

BATCH, DIM, RANK, EXPERTS, LAYERS = 6144, 429, 64, 4, 3


class Model(nn.Module):
    """DCN v2 cross network, low-rank mixture form: x <- x0 * (sum_e gate_e U_e tanh(C_e tanh(V_e x)) + b) + x."""

    def __init__(self, dim, rank, experts, layers):
        super().__init__()
        self.v = nn.Parameter(torch.randn(layers, experts, dim, rank) / math.sqrt(dim))
        self.c = nn.Parameter(torch.randn(layers, experts, rank, rank) / math.sqrt(rank))
        self.u = nn.Parameter(torch.randn(layers, experts, rank, dim) / math.sqrt(rank))
        self.b = nn.Parameter(0.01 * torch.randn(layers, dim))
        self.gate = nn.Linear(dim, experts, bias=False)
        self.head = nn.Linear(dim, 1)
        self.layers = layers

    def forward(self, x0):
        x = x0
        for i in range(self.layers):
            low = torch.tanh(torch.einsum("bd,edr->ebr", x, self.v[i]))
            low = torch.tanh(torch.bmm(low, self.c[i]))
            gates = torch.softmax(self.gate(x), dim=-1)
            mixed = torch.einsum("ebr,erd,be->bd", low, self.u[i], gates)
            x = x0 * (mixed + self.b[i]) + x
        return torch.sigmoid(self.head(x)).squeeze(-1), x


def get_inputs():
    return [0.5 * torch.randn(BATCH, DIM)]


def get_init_inputs():
    return [DIM, RANK, EXPERTS, LAYERS]
