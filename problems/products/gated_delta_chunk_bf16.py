"""Gated delta rule inside chunks: decayed lower-triangular products, first-order correction, state update."""
import torch
import torch.nn as nn
import torch.nn.functional as F

G, C, D = 256, 64, 128

class Model(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.scale = d ** -0.5

    def forward(self, q, k, v, g, beta):
        k = F.normalize(k.float(), dim=-1).to(q.dtype)
        c = q.shape[1]
        mask = torch.ones(c, c, dtype=torch.bool, device=q.device).tril()
        decay = (g[:, :, None] - g[:, None, :]).masked_fill(~mask, float("-inf")).exp()
        vb = v * beta[..., None].to(v.dtype)
        kb = k * beta[..., None].to(k.dtype)
        a = (torch.bmm(kb, k.transpose(1, 2)).float() * decay).tril(-1).to(v.dtype)
        u = vb - torch.bmm(a, vb)
        attn = (torch.bmm(q, k.transpose(1, 2)).float() * decay * self.scale).to(v.dtype)
        o = torch.bmm(attn, u)
        tail = (g[:, -1:] - g).exp().unsqueeze(-1)
        state = torch.bmm((k * tail.to(k.dtype)).transpose(1, 2), u)
        return o, state

def get_inputs():
    return [torch.randn(G, C, D).bfloat16(), torch.randn(G, C, D).bfloat16(), torch.randn(G, C, D).bfloat16(),
            -(0.1 * torch.rand(G, C)).cumsum(1), torch.sigmoid(torch.randn(G, C))]

def get_init_inputs():
    return [D]
