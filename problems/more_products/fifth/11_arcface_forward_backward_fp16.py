import math
import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH, DIM, CLASSES = 256, 512, 85742
SCALE, MARGIN, LOSS_SCALE = 64.0, 0.5, 256.0


class Model(nn.Module):
    """ArcFace head: cosine logits with an additive angular margin, cross entropy, and scaled gradients of features and class centres."""

    def __init__(self, dim, classes):
        super().__init__()
        self.weight = nn.Parameter((0.05 * torch.randn(classes, dim)).to(torch.float16))

    def forward(self, feats, labels):
        f, w = feats.float(), self.weight.float()
        f_inv = 1.0 / f.norm(dim=1, keepdim=True).clamp_min(1e-6)
        w_inv = 1.0 / w.norm(dim=1, keepdim=True).clamp_min(1e-6)
        fn = (f * f_inv).to(feats.dtype)
        wn = (w * w_inv).to(feats.dtype)
        cos = (fn @ wn.t()).float()

        target = cos.gather(1, labels[:, None]).clamp(-1 + 1e-5, 1 - 1e-5)
        sin = torch.sqrt(1.0 - target * target)
        easy = target > math.cos(math.pi - MARGIN)
        shifted = torch.where(
            easy, target * math.cos(MARGIN) - sin * math.sin(MARGIN), target - MARGIN * math.sin(MARGIN)
        )
        slope = torch.where(easy, math.cos(MARGIN) + target / sin * math.sin(MARGIN), torch.ones_like(target))
        logits = SCALE * cos.scatter(1, labels[:, None], shifted)
        logp = F.log_softmax(logits, dim=1)
        loss = -logp.gather(1, labels[:, None]).mean()

        d_cos = logp.exp()
        d_target = (d_cos.gather(1, labels[:, None]) - 1.0) * slope
        d_cos = d_cos.scatter(1, labels[:, None], d_target) * (SCALE * LOSS_SCALE / feats.shape[0])
        d_cos = d_cos.to(feats.dtype)
        d_fn = (d_cos @ wn).float()
        d_wn = (d_cos.t() @ fn).float()
        d_f = (d_fn - fn.float() * (d_fn * fn.float()).sum(1, keepdim=True)) * f_inv
        d_w = (d_wn - wn.float() * (d_wn * wn.float()).sum(1, keepdim=True)) * w_inv
        return loss, d_f.to(feats.dtype), d_w.to(feats.dtype)


def get_inputs():
    return [torch.randn(BATCH, DIM, dtype=torch.float16), torch.randint(0, CLASSES, (BATCH,))]


def get_init_inputs():
    return [DIM, CLASSES]
