"""CLIP: two projections, unit vectors, scaled logits, log-softmax both ways, losses of every pair."""
import torch
import torch.nn as nn
import torch.nn.functional as F

B, DI, DT, E = 2048, 768, 512, 512

class Model(nn.Module):
    def __init__(self, di, dt, e):
        super().__init__()
        self.img = nn.Parameter((torch.randn(di, e) * di ** -0.5).bfloat16())
        self.txt = nn.Parameter((torch.randn(dt, e) * dt ** -0.5).bfloat16())
        self.logit_scale = nn.Parameter(torch.tensor(3.6))

    def forward(self, image, text):
        zi = image @ self.img
        zt = text @ self.txt
        zi = zi / zi.norm(dim=-1, keepdim=True)
        zt = zt / zt.norm(dim=-1, keepdim=True)
        logits = (zi @ zt.t()).float() * self.logit_scale.exp()
        li = -torch.diagonal(F.log_softmax(logits, dim=1))
        lt = -torch.diagonal(F.log_softmax(logits, dim=0))
        return li, lt, 0.5 * (li.mean() + lt.mean())

def get_inputs():
    return [torch.randn(B, DI).bfloat16(), torch.randn(B, DT).bfloat16()]

def get_init_inputs():
    return [DI, DT, E]
