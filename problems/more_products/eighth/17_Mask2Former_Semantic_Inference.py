import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Prediction heads of Mask2Former with semantic inference on ADE20K: decoder norm, class scores with a no-object
    class, three-layer mask embedding, its product with every pixel's feature, then class probabilities times mask
    probabilities summed over the queries. Returns the label map, its score and the raw mask logits."""

    def __init__(self, dim, classes):
        super().__init__()
        half = dict(dtype=torch.float16)
        self.norm = nn.LayerNorm(dim, **half)
        self.cls = nn.Linear(dim, classes + 1, **half)
        self.embed = nn.Sequential(
            nn.Linear(dim, dim, **half), nn.ReLU(), nn.Linear(dim, dim, **half), nn.ReLU(), nn.Linear(dim, dim, **half)
        )

    def forward(self, queries, pixels):
        q = self.norm(queries)
        prob = F.softmax(self.cls(q).float(), dim=-1)[..., :-1].to(queries.dtype)
        mask = torch.einsum("bqc,bchw->bqhw", self.embed(q), pixels)
        score = torch.einsum("bqk,bqhw->bkhw", prob, mask.sigmoid())
        best, label = score.max(dim=1)
        return label, best, mask


BATCH, QUERIES, DIM, H, W, CLASSES = 2, 100, 256, 160, 168, 150


def get_inputs():
    return [torch.randn(BATCH, QUERIES, DIM).half(), (0.5 * torch.randn(BATCH, DIM, H, W)).half()]


def get_init_inputs():
    return [DIM, CLASSES]
