import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, user_dim, item_dim, embed, tau):
        super().__init__()
        self.user = nn.Linear(user_dim, embed)
        self.item = nn.Linear(item_dim, embed)
        self.tau = tau

    def forward(self, xu, xi, log_q):
        u, v = self.user(xu), self.item(xi)
        nu, nv = u.norm(dim=1, keepdim=True), v.norm(dim=1, keepdim=True)
        uh, vh = u / nu, v / nv
        s = uh @ vh.t() / self.tau - log_q[None, :]
        lse = torch.logsumexp(s, dim=1, keepdim=True)
        loss = (lse.squeeze(1) - s.diagonal()).sum()
        ds = torch.exp(s - lse) - torch.eye(s.shape[0], device=s.device)
        ds = ds / self.tau
        duh, dvh = ds @ vh, ds.t() @ uh
        du = (duh - uh * (duh * uh).sum(1, keepdim=True)) / nu
        dv = (dvh - vh * (dvh * vh).sum(1, keepdim=True)) / nv
        return loss, du.t() @ xu, dv.t() @ xi


def get_inputs():
    return [torch.randn(1000, 384), torch.randn(1000, 256), torch.log(torch.rand(1000) * 0.01 + 1e-4)]


def get_init_inputs():
    return [384, 256, 128, 0.07]
