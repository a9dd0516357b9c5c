import torch
import torch.nn as nn

TOKENS, HIDDEN, INTER = 1024, 2048, 5632


class Model(nn.Module):
    """Hand-written backward of a SwiGLU MLP from saved pre-activations: dx and the three weight gradients."""

    def __init__(self, hidden: int, inter: int):
        super().__init__()
        self.w_gate = nn.Parameter(torch.randn(inter, hidden, dtype=torch.bfloat16) * hidden ** -0.5)
        self.w_up = nn.Parameter(torch.randn(inter, hidden, dtype=torch.bfloat16) * hidden ** -0.5)
        self.w_down = nn.Parameter(torch.randn(hidden, inter, dtype=torch.bfloat16) * inter ** -0.5)

    def forward(self, dy, x, gate, up):
        dy2 = dy.flatten(0, 1)
        x2 = x.flatten(0, 1)
        g = gate.flatten(0, 1).float()
        u = up.flatten(0, 1).float()
        s = torch.sigmoid(g)
        act = g * s
        da = (dy2 @ self.w_down).float()
        d_up = (da * act).to(dy.dtype)
        d_gate = (da * u * (s + act * (1.0 - s))).to(dy.dtype)
        dw_down = dy2.t() @ (act * u).to(dy.dtype)
        dw_gate = d_gate.t() @ x2
        dw_up = d_up.t() @ x2
        dx = torch.addmm(d_gate @ self.w_gate, d_up, self.w_up)
        return dx.view_as(x), dw_gate, dw_up, dw_down


def get_inputs():
    return [
        torch.randn(2, TOKENS // 2, HIDDEN, dtype=torch.bfloat16) * 0.1,
        torch.randn(2, TOKENS // 2, HIDDEN, dtype=torch.bfloat16),
        torch.randn(2, TOKENS // 2, INTER, dtype=torch.bfloat16),
        torch.randn(2, TOKENS // 2, INTER, dtype=torch.bfloat16),
    ]


def get_init_inputs():
    return [HIDDEN, INTER]
