import torch
import torch.nn as nn


class Model(nn.Module):
    """One level of Felsenstein's pruning algorithm for protein phylogenies: 20 x 20 transition matrices exp(Q t r)
    for every branch and rate category by scaling, a degree-six Taylor polynomial and repeated squaring, then the
    partial likelihoods of the two children of each inner node are carried up, multiplied and rescaled per site."""

    def __init__(self, states, squarings):
        super().__init__()
        self.squarings = squarings
        exchange = torch.rand(states, states) ** 2 + 0.02
        exchange = torch.triu(exchange, 1)
        freq = torch.softmax(0.4 * torch.randn(states), dim=0)
        q = (exchange + exchange.t()) * freq
        q = q - torch.diag(q.sum(1))
        self.register_buffer("q", q / -(freq * torch.diagonal(q)).sum())
        self.register_buffer("eye", torch.eye(states))
        self.register_buffer("rates", torch.tensor([0.14, 0.48, 1.0, 2.38]))

    def transition(self, t):
        a = (t[:, None] * self.rates)[..., None, None] * self.q / 2.0 ** self.squarings
        a2 = a @ a
        a3 = a2 @ a
        p = self.eye + a + a2 / 2 + a3 @ (self.eye / 6 + a / 24 + a2 / 120 + a3 / 720)
        for _ in range(self.squarings):
            p = p @ p
        return p

    def forward(self, left, right, t_left, t_right, log_scale):
        # partials: (nodes, categories, sites, states)
        up = (left @ self.transition(t_left).transpose(-1, -2)) * (right @ self.transition(t_right).transpose(-1, -2))
        top = up.amax(dim=(1, 3), keepdim=True)
        return up / top, log_scale + torch.log(top[:, 0, :, 0])


NODES, CATEGORIES, SITES, STATES = 128, 4, 500, 20


def get_inputs():
    shape = (NODES, CATEGORIES, SITES, STATES)
    return [
        0.01 + torch.rand(shape) ** 3,
        0.01 + torch.rand(shape) ** 3,
        0.02 + 0.4 * torch.rand(NODES),
        0.02 + 0.4 * torch.rand(NODES),
        -torch.rand(NODES, SITES),
    ]


def get_init_inputs():
    return [STATES, 5]
