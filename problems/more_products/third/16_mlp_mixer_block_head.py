import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH, TOKENS, DIM = 32, 196, 768


class Model(nn.Module):
    """Last MLP-Mixer-B/16 block with its classification head: token mixing over 196 patches on the transposed
    tensor, channel mixing, LayerNorm, mean pooling, 1000 classes, log-probabilities."""

    def __init__(self, tokens: int, dim: int, token_mlp: int, channel_mlp: int, classes: int):
        super().__init__()
        kw = dict(dtype=torch.float16)
        self.ln1 = nn.LayerNorm(dim, **kw)
        self.ln2 = nn.LayerNorm(dim, **kw)
        self.ln3 = nn.LayerNorm(dim, **kw)
        self.t1 = nn.Linear(tokens, token_mlp, **kw)
        self.t2 = nn.Linear(token_mlp, tokens, **kw)
        self.c1 = nn.Linear(dim, channel_mlp, **kw)
        self.c2 = nn.Linear(channel_mlp, dim, **kw)
        self.head = nn.Linear(dim, classes, **kw)
        for lin in (self.t1, self.t2, self.c1, self.c2):
            nn.init.normal_(lin.weight, std=lin.in_features ** -0.5)
        nn.init.normal_(self.head.weight, std=0.3)

    def forward(self, x):
        t = self.ln1(x).transpose(1, 2)
        x = x + self.t2(F.gelu(self.t1(t))).transpose(1, 2)
        x = x + self.c2(F.gelu(self.c1(self.ln2(x))))
        pooled = self.ln3(x).mean(dim=1)
        return torch.log_softmax(self.head(pooled).float(), dim=-1)


def get_inputs():
    return [torch.randn(BATCH, TOKENS, DIM, dtype=torch.float16)]


def get_init_inputs():
    return [TOKENS, DIM, 384, 3072, 1000]
