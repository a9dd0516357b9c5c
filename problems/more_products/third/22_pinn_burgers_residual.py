import torch
import torch.nn as nn

POINTS, WIDTH, DEPTH = 8192, 300, 4


class Model(nn.Module):
    """Physics-informed network with sine activations: value, first derivatives in x and t and second derivative
    in x are pushed forward through every layer; returns u and the residual of Burgers' equation."""

    def __init__(self, width: int, depth: int, w0: float, nu: float):
        super().__init__()
        self.w0, self.nu, self.depth = w0, nu, depth
        self.w_in = nn.Parameter(torch.empty(2, width).uniform_(-0.5, 0.5))
        self.b_in = nn.Parameter(torch.empty(width).uniform_(-1, 1))
        bound = (6.0 / width) ** 0.5
        self.w = nn.Parameter(torch.empty(depth, width, width).uniform_(-bound, bound))
        self.b = nn.Parameter(torch.empty(depth, width).uniform_(-0.1, 0.1))
        self.w_out = nn.Parameter(torch.randn(width, 1) * width ** -0.5)

    def forward(self, xt):
        z = self.w0 * (xt @ self.w_in) + self.b_in
        zx = self.w0 * self.w_in[0]
        zt = self.w0 * self.w_in[1]
        s, c = torch.sin(z), torch.cos(z)
        h, hx, ht, hxx = s, c * zx, c * zt, -s * zx * zx
        for i in range(self.depth):
            w = self.w[i]
            z = torch.addmm(self.b[i], h, w)
            zx, zt, zxx = hx @ w, ht @ w, hxx @ w
            s, c = torch.sin(z), torch.cos(z)
            h, hx, ht = s, c * zx, c * zt
            hxx = c * zxx - s * zx.square()
        u, ux, ut, uxx = (q @ self.w_out for q in (h, hx, ht, hxx))
        res = ut + u * ux - self.nu * uxx
        return u, res, res.square().mean()


def get_inputs():
    xt = torch.rand(POINTS, 2)
    xt[:, 0] = 2 * xt[:, 0] - 1
    return [xt]


def get_init_inputs():
    return [WIDTH, DEPTH, 3.0, 0.01 / 3.141592653589793]
