import torch
import torch.nn as nn


class Model(nn.Module):
    """GPTQ 4-bit layer with activation order, five decoded rows: eight codes along the input per int32, packed zero
    points (stored minus one), and a group index per input channel that says which scale row it uses, since the
    columns were quantised in order of importance. Down projection of a Llama-2-7B MLP in half, with its residual."""

    def __init__(self, k, n, group):
        super().__init__()
        groups = k // group
        low, high = -2 ** 31, 2 ** 31 - 1
        self.register_buffer("qweight", torch.randint(low, high, (k // 8, n), dtype=torch.int64).to(torch.int32))
        self.register_buffer("qzeros", torch.randint(low, high, (groups, n // 8), dtype=torch.int64).to(torch.int32))
        self.register_buffer("scales", ((0.5 + torch.rand(groups, n)) / (6.5 * k ** 0.5)).half())
        order = torch.randperm(k)
        self.register_buffer("g_idx", torch.argsort(order) // group)
        self.register_buffer("shifts", torch.arange(0, 32, 4, dtype=torch.int32))

    def forward(self, gate_up, residual):
        gate, up = gate_up.chunk(2, dim=-1)
        x = nn.functional.silu(gate) * up
        q = (self.qweight[:, None, :] >> self.shifts[None, :, None]) & 15
        q = q.reshape(-1, q.shape[-1])
        z = (self.qzeros[:, :, None] >> self.shifts) & 15
        z = z.reshape(z.shape[0], -1) + 1
        w = (q - z[self.g_idx]).to(x.dtype) * self.scales[self.g_idx]
        return residual + x @ w


ROWS, INTER, DIM = 5, 11008, 4096


def get_inputs():
    return [torch.randn(ROWS, 2 * INTER).half(), torch.randn(ROWS, DIM).half()]


def get_init_inputs():
    return [INTER, DIM, 128]
