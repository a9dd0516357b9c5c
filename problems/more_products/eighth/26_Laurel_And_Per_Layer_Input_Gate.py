import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Rest of a Gemma-3n layer after attention, seven decoded rows: the rank-64 learned augmented residual (LAuReL) of
    the normed input joins the attention branch, a sandwich-normed tanh-GELU gated MLP follows, and the layer's own
    token embedding of 256 features enters through a gate and a projection. Norms run in float32."""

    def __init__(self, dim, inter, rank, ple):
        super().__init__()
        bf = dict(bias=False, dtype=torch.bfloat16)
        self.laurel_left = nn.Linear(dim, rank, **bf)
        self.laurel_right = nn.Linear(rank, dim, **bf)
        self.gate = nn.Linear(dim, inter, **bf)
        self.up = nn.Linear(dim, inter, **bf)
        self.down = nn.Linear(inter, dim, **bf)
        self.ple_gate = nn.Linear(dim, ple, **bf)
        self.ple_out = nn.Linear(ple, dim, **bf)
        for name in ("laurel", "attn", "pre_ffn", "post_ffn", "ple"):
            setattr(self, name + "_norm", nn.Parameter(1 + 0.1 * torch.randn(dim)))

    def norm(self, x, w):
        xf = x.float()
        return (xf * torch.rsqrt(xf.pow(2).mean(-1, keepdim=True) + 1e-6) * w).to(x.dtype)

    def forward(self, x, normed, attn, layer_embed):
        laurel = normed + self.norm(self.laurel_right(self.laurel_left(normed)), self.laurel_norm)
        h = (x + self.norm(attn, self.attn_norm) + laurel) * 0.7071067811865476
        n = self.norm(h, self.pre_ffn_norm)
        m = self.down(F.gelu(self.gate(n), approximate="tanh") * self.up(n))
        h = h + self.norm(m, self.post_ffn_norm)
        p = F.gelu(self.ple_gate(h), approximate="tanh") * layer_embed
        return h + self.norm(self.ple_out(p), self.ple_norm)


ROWS, DIM, INTER, RANK, PLE = 7, 2048, 8192, 64, 256


def get_inputs():
    bf = torch.bfloat16
    return [
        torch.randn(ROWS, DIM).to(bf),
        torch.randn(ROWS, DIM).to(bf),
        torch.randn(ROWS, DIM).to(bf),
        torch.randn(ROWS, PLE).to(bf),
    ]


def get_init_inputs():
    return [DIM, INTER, RANK, PLE]
