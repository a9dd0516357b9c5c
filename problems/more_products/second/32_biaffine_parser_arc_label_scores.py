import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, hidden, arc, rel, n_rel):
        super().__init__()
        self.arc, self.rel = arc, rel
        self.mlp = nn.Linear(hidden, 2 * (arc + rel))
        self.w_arc = nn.Parameter(torch.randn(arc + 1, arc) * arc ** -0.5)
        self.w_rel = nn.Parameter(torch.randn(n_rel, rel + 1, rel + 1) / rel)

    def forward(self, x, mask):
        h = F.leaky_relu(self.mlp(x), 0.1)
        arc_d, arc_h, rel_d, rel_h = h.split([self.arc, self.arc, self.rel, self.rel], dim=-1)
        arc_d = F.pad(arc_d, (0, 1), value=1.0)
        rel_d, rel_h = F.pad(rel_d, (0, 1), value=1.0), F.pad(rel_h, (0, 1), value=1.0)
        s_arc = torch.bmm(arc_d @ self.w_arc, arc_h.transpose(1, 2))
        pad = ~mask.unsqueeze(1)
        s_arc = F.log_softmax(s_arc.masked_fill(pad, -1e9), dim=-1).masked_fill(pad, 0.0)
        s_rel = torch.einsum("bxi,oij,byj->bxyo", rel_d, self.w_rel, rel_h)
        return s_arc, s_rel


def get_inputs():
    return [torch.randn(16, 50, 800), torch.rand(16, 50) > 0.1]


def get_init_inputs():
    return [800, 500, 100, 40]
