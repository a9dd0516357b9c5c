"""An MLP between adaptive layer norm and gate, both from the conditioning vector, as in DiT, SD3 and Flux."""
import torch
import torch.nn.functional as F

WORKLOADS = {
    "small": {"B": 8, "T": 256, "C": 1152, "H": 4608},
    "middle": {"B": 2, "T": 4096, "C": 1536, "H": 6144},
    "large": {"B": 2, "T": 4608, "C": 3072, "H": 12288},
}


class Model(torch.nn.Module):
    def __init__(self, C, H):
        super().__init__()
        self.modulation = torch.nn.Parameter(torch.randn(3 * C, C, dtype=torch.bfloat16) * C ** -0.5)
        self.modulation_bias = torch.nn.Parameter(0.1 * torch.randn(3 * C, dtype=torch.bfloat16))
        self.up = torch.nn.Parameter(torch.randn(H, C, dtype=torch.bfloat16) * C ** -0.5)
        self.up_bias = torch.nn.Parameter(0.1 * torch.randn(H, dtype=torch.bfloat16))
        self.down = torch.nn.Parameter(torch.randn(C, H, dtype=torch.bfloat16) * H ** -0.5)
        self.down_bias = torch.nn.Parameter(0.1 * torch.randn(C, dtype=torch.bfloat16))

    def forward(self, x, condition):
        modulation = F.linear(F.silu(condition), self.modulation, self.modulation_bias)
        shift, scale, gate = modulation[:, None].chunk(3, dim=-1)
        h = F.layer_norm(x, x.shape[-1:], eps=1e-6) * (1 + scale) + shift
        h = F.gelu(F.linear(h, self.up, self.up_bias), approximate="tanh")
        return x + gate * F.linear(h, self.down, self.down_bias)


def get_inputs(B=8, T=256, C=1152, H=4608):
    return [torch.randn(B, T, C, dtype=torch.bfloat16), torch.randn(B, C, dtype=torch.bfloat16)]


def get_init_inputs(B=8, T=256, C=1152, H=4608):
    return [C, H]
