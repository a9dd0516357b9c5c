import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH, TOKENS, HIDDEN = 8, 256, 1152


def modulate(x, shift, scale):
    return x * (1 + scale.unsqueeze(1)) + shift.unsqueeze(1)


class Model(nn.Module):
    """DiT-XL/2 block after attention: adaLN-Zero modulation from the conditioning vector, gated attention
    projection, modulated LayerNorm, tanh-GELU MLP, gated residual; returns the next block's modulated input too."""

    def __init__(self, hidden: int, mlp_ratio: int):
        super().__init__()
        kw = dict(dtype=torch.bfloat16)
        self.ada = nn.Linear(hidden, 6 * hidden, **kw)
        self.proj = nn.Linear(hidden, hidden, **kw)
        self.fc1 = nn.Linear(hidden, mlp_ratio * hidden, **kw)
        self.fc2 = nn.Linear(mlp_ratio * hidden, hidden, **kw)
        for lin in (self.ada, self.proj, self.fc1, self.fc2):
            nn.init.normal_(lin.weight, std=lin.in_features ** -0.5)
        self.hidden = hidden

    def forward(self, x, attn, c):
        sh1, sc1, g1, sh2, sc2, g2 = self.ada(F.silu(c)).chunk(6, dim=-1)
        x = x + g1.unsqueeze(1) * self.proj(attn)
        n = modulate(F.layer_norm(x, (self.hidden,), eps=1e-6), sh2, sc2)
        m = self.fc2(F.gelu(self.fc1(n), approximate="tanh"))
        x = x + g2.unsqueeze(1) * m
        return x, modulate(F.layer_norm(x, (self.hidden,), eps=1e-6), sh1, sc1)


def get_inputs():
    return [
        torch.randn(BATCH, TOKENS, HIDDEN, dtype=torch.bfloat16),
        torch.randn(BATCH, TOKENS, HIDDEN, dtype=torch.bfloat16),
        torch.randn(BATCH, HIDDEN, dtype=torch.bfloat16),
    ]


def get_init_inputs():
    return [HIDDEN, 4]
