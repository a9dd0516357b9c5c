import torch
import torch.nn as nn


class Model(nn.Module):
    """LLM.int8 layer: activations quantised per row outside fixed outlier columns, int8 product rescaled, outlier columns multiplied in half, bias and ReLU."""

    def __init__(self, k, n, outliers):
        super().__init__()
        idx = torch.arange(outliers) * (k // outliers) + 7
        regular = torch.ones(k)
        regular[idx] = 0.0
        self.register_buffer("idx", idx)
        self.register_buffer("regular", regular)
        self.register_buffer("w8", torch.randint(-127, 128, (n, k), dtype=torch.int64).to(torch.int8))
        self.register_buffer("w_scale", (0.5 + torch.rand(n)) / (73.0 * k ** 0.5))
        self.register_buffer("w_out", (torch.randn(n, outliers) / k ** 0.5).half())
        self.register_buffer("bias", (0.1 * torch.randn(n)).half())

    def forward(self, x):
        kept = x.float() * self.regular
        s = kept.abs().amax(dim=-1, keepdim=True).clamp_min(1e-5) / 127.0
        q = torch.round(kept / s).clamp(-127.0, 127.0)
        main = (q @ self.w8.to(torch.float32).t()) * s * self.w_scale
        extra = x.index_select(-1, self.idx) @ self.w_out.t()
        return torch.relu((main + extra.float() + self.bias.float()).to(x.dtype))


K, N, OUTLIERS = 2560, 10240, 20


def get_inputs():
    boost = torch.ones(K)
    boost[torch.arange(OUTLIERS) * (K // OUTLIERS) + 7] = 12.0
    return [(torch.randn(160, K) * boost).half()]


def get_init_inputs():
    return [K, N, OUTLIERS]
