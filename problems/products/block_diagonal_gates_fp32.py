"""Two gates by block-diagonal linears, made decay and gated input of a linear recurrence, as in RecurrentGemma."""
import torch
import torch.nn.functional as F

WORKLOADS = {
    "decode": {"T": 8, "N": 16, "D": 256},
    "small": {"T": 1024, "N": 10, "D": 256},
    "large": {"T": 8192, "N": 16, "D": 256},
}


class Model(torch.nn.Module):
    def __init__(self, N, D):
        super().__init__()
        self.decay = torch.nn.Parameter(torch.randn(N, D))
        self.decay_gate = torch.nn.Parameter(torch.randn(N, D, D) * D ** -0.5)
        self.decay_bias = torch.nn.Parameter(0.1 * torch.randn(N, D))
        self.input_gate = torch.nn.Parameter(torch.randn(N, D, D) * D ** -0.5)
        self.input_bias = torch.nn.Parameter(0.1 * torch.randn(N, D))

    def forward(self, x):
        blocks = x.view(-1, *self.decay.shape)
        r = torch.sigmoid(torch.einsum("tni,nij->tnj", blocks, self.decay_gate) + self.decay_bias)
        i = torch.sigmoid(torch.einsum("tni,nij->tnj", blocks, self.input_gate) + self.input_bias)
        log_a = -8.0 * r * F.softplus(self.decay)
        gated = blocks * i * torch.sqrt(-torch.expm1(2 * log_a))
        return torch.exp(log_a).reshape(x.shape), gated.reshape(x.shape)


def get_inputs(T=1024, N=10, D=256):
    return [torch.randn(T, N * D)]


def get_init_inputs(T=1024, N=10, D=256):
    return [N, D]
