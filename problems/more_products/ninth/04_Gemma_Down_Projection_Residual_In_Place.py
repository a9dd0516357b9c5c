import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """End of a Gemma-2 feed-forward: gate and up halves through GELU (tanh), the down projection, the post norm, then
    the residual stream is added to in place and returned, together with its pre norm for the next layer. The hidden
    width is odd."""

    def __init__(self, dim, hidden):
        super().__init__()
        self.down = nn.Parameter((torch.randn(dim, hidden) / hidden**0.5).to(torch.bfloat16))
        self.post = nn.Parameter((0.1 * torch.randn(dim)).to(torch.bfloat16))
        self.pre = nn.Parameter((0.1 * torch.randn(dim)).to(torch.bfloat16))

    def norm(self, x, weight):
        xf = x.float()
        xf = xf * torch.rsqrt(xf.pow(2).mean(-1, keepdim=True) + 1e-6)
        return (xf * (1.0 + weight.float())).to(x.dtype)

    def forward(self, gate_up, residual):
        gate, up = gate_up.chunk(2, dim=-1)
        h = F.gelu(gate, approximate="tanh") * up
        y = F.linear(h, self.down)
        residual.add_(self.norm(y, self.post))
        return residual, self.norm(residual, self.pre)


BATCH, TOKENS, DIM, HIDDEN = 3, 171, 1152, 2731


def get_inputs():
    return [
        torch.randn(BATCH, TOKENS, 2 * HIDDEN).to(torch.bfloat16),
        torch.randn(BATCH, TOKENS, DIM).to(torch.bfloat16),
    ]


def get_init_inputs():
    return [DIM, HIDDEN]
