import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """SigLIP: project both towers, normalise, pairwise sigmoid loss per image, gradients of the normalised embeddings."""

    def __init__(self, d_img, d_txt, d_emb):
        super().__init__()
        self.vis = nn.Parameter((torch.randn(d_img, d_emb) / d_img ** 0.5).to(torch.bfloat16))
        self.txt = nn.Linear(d_txt, d_emb, bias=True).to(torch.bfloat16)
        self.t = nn.Parameter(torch.tensor(2.3))
        self.b = nn.Parameter(torch.tensor(-4.0))

    def forward(self, img, txt):
        zi = F.normalize((img @ self.vis).float(), dim=-1).to(torch.bfloat16)
        zt = F.normalize(self.txt(txt).float(), dim=-1).to(torch.bfloat16)
        n = zi.shape[0]
        logits = (zi @ zt.t()).float() * self.t.exp() + self.b
        idx = torch.arange(n, device=zi.device)
        labels = 2.0 * (idx.unsqueeze(1) == idx.unsqueeze(0)).float() - 1.0
        m = labels * logits
        loss = F.softplus(-m).sum(dim=1)
        dlog = (-labels * torch.sigmoid(-m) * self.t.exp()).to(torch.bfloat16)
        return loss, dlog @ zt, dlog.t() @ zi


def get_inputs():
    return [
        torch.randn(2048, 1152).to(torch.bfloat16),
        torch.randn(2048, 768).to(torch.bfloat16),
    ]


def get_init_inputs():
    return [1152, 768, 640]
