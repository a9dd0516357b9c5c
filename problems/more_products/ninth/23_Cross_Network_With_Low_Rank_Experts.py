import torch
import torch.nn as nn


class Model(nn.Module):
    """Three cross layers of DCN-V2 with a mixture of low-rank experts, bfloat16: each expert takes the features down to
    a small rank, mixes there between two tanh, goes back up, is multiplied with the first features, and the experts are
    summed with softmax gates, plus the residual. The width is odd."""

    def __init__(self, dim, rank, experts, layers):
        super().__init__()
        bf = torch.bfloat16
        self.layers = layers
        self.v = nn.Parameter((torch.randn(layers, experts, dim, rank) / dim**0.5).to(bf))
        self.c = nn.Parameter((torch.randn(layers, experts, rank, rank) / rank**0.5).to(bf))
        self.u = nn.Parameter((torch.randn(layers, experts, rank, dim) / rank**0.5).to(bf))
        self.bias = nn.Parameter((0.1 * torch.randn(layers, dim)).to(bf))
        self.gate = nn.Parameter((torch.randn(layers, experts, dim) / dim**0.5).to(bf))

    def forward(self, x0):
        x = x0
        for l in range(self.layers):
            gate = torch.softmax((x @ self.gate[l].t()).float(), dim=-1).to(x.dtype)
            low = torch.tanh(torch.einsum("bd,edr->ber", x, self.v[l]))
            low = torch.tanh(torch.einsum("ber,erq->beq", low, self.c[l]))
            high = torch.einsum("ber,erd->bed", low, self.u[l]) + self.bias[l]
            x = x + (x0[:, None] * high * gate[..., None]).sum(dim=1)
        return x


BATCH, DIM, RANK, EXPERTS, LAYERS = 2048, 1037, 64, 4, 3


def get_inputs():
    return [torch.randn(BATCH, DIM).to(torch.bfloat16)]


def get_init_inputs():
    return [DIM, RANK, EXPERTS, LAYERS]
