import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """MLP half of a diffusion transformer block with adaptive layer norm: SiLU and a projection of the condition give
    shift, scale and gate of each image, layer norm without weights is modulated, then linear, GELU (tanh), linear, and
    the gated result is added to the tokens, bfloat16."""

    def __init__(self, dim, hidden):
        super().__init__()
        self.condition = nn.Linear(dim, 3 * dim, dtype=torch.bfloat16)
        self.up = nn.Linear(dim, hidden, dtype=torch.bfloat16)
        self.down = nn.Linear(hidden, dim, dtype=torch.bfloat16)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=module.in_features**-0.5)

    def forward(self, x, c):
        shift, scale, gate = self.condition(F.silu(c))[:, None].chunk(3, dim=-1)
        h = F.layer_norm(x, x.shape[-1:], eps=1e-6) * (1 + scale) + shift
        h = self.down(F.gelu(self.up(h), approximate="tanh"))
        return x + gate * h


BATCH, TOKENS, DIM, HIDDEN = 3, 240, 1152, 4608


def get_inputs():
    return [torch.randn(BATCH, TOKENS, DIM).to(torch.bfloat16), torch.randn(BATCH, DIM).to(torch.bfloat16)]


def get_init_inputs():
    return [DIM, HIDDEN]
