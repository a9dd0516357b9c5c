import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, vision, hidden, vocab):
        super().__init__()
        self.linear_1 = nn.Linear(vision, hidden, dtype=torch.float16)
        self.linear_2 = nn.Linear(hidden, hidden, dtype=torch.float16)
        self.embed_tokens = nn.Embedding(vocab, hidden, dtype=torch.float16)

    def forward(self, clip_hidden, prefix_ids, suffix_ids):
        img = self.linear_2(F.gelu(self.linear_1(clip_hidden[:, 1:])))
        pre, post = self.embed_tokens(prefix_ids), self.embed_tokens(suffix_ids)
        return torch.cat([pre, img, post], dim=1)


def get_inputs():
    return [
        torch.randn(8, 577, 1024, dtype=torch.float16),
        torch.randint(0, 32064, (8, 35)),
        torch.randint(0, 32064, (8, 29)),
    ]


def get_init_inputs():
    return [1024, 4096, 32064]
