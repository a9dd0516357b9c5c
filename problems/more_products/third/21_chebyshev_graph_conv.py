import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH, NODES, F_IN, F_OUT = 64, 307, 96, 128


class Model(nn.Module):
    """Chebyshev graph convolution (order 3) over the 307 PEMS04 sensors with a dense weighted adjacency:
    the normalised Laplacian is formed on the fly; GLU, residual projection, LayerNorm, node-mean readout."""

    def __init__(self, f_in: int, f_out: int, order: int):
        super().__init__()
        self.order = order
        self.theta = nn.Parameter(torch.randn(order, f_in, 2 * f_out) * (order * f_in) ** -0.5)
        self.bias = nn.Parameter(torch.zeros(2 * f_out))
        self.res = nn.Linear(f_in, f_out)
        self.ln = nn.LayerNorm(f_out)
        self.readout = nn.Linear(f_out, 12)

    def forward(self, x, adj):
        deg = adj.sum(dim=1)
        inv = torch.where(deg > 0, deg.clamp(min=1e-12).rsqrt(), torch.zeros_like(deg))
        lap = -(inv.unsqueeze(1) * adj * inv.unsqueeze(0))  # 2L/lambda_max - I with lambda_max = 2
        t_prev, t_cur = x, torch.matmul(lap, x)
        out = t_prev @ self.theta[0] + t_cur @ self.theta[1]
        for k in range(2, self.order):
            t_prev, t_cur = t_cur, 2.0 * torch.matmul(lap, t_cur) - t_prev
            out = out + t_cur @ self.theta[k]
        h = F.glu(out + self.bias, dim=-1)
        h = self.ln(h + self.res(x))
        return h, self.readout(F.relu(h)).mean(dim=1)


def get_inputs():
    pos = torch.rand(NODES, 2)
    d = torch.cdist(pos, pos)
    adj = torch.exp(-(d / 0.1).square()) * (d < 0.2)
    adj = adj - torch.diag(torch.diagonal(adj))
    return [torch.randn(BATCH, NODES, F_IN), adj]


def get_init_inputs():
    return [F_IN, F_OUT, 3]
