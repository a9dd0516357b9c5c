import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width, embed):
        super().__init__()
        self.ln_final = nn.LayerNorm(width)
        self.text_projection = nn.Parameter(torch.randn(width, embed) * width ** -0.5)
        self.logit_scale = nn.Parameter(torch.tensor(2.6593))

    def forward(self, hidden, ids, image_features):
        x = self.ln_final(hidden)
        eot = ids.argmax(dim=-1)
        x = x[torch.arange(x.shape[0], device=x.device), eot] @ self.text_projection
        text = x / x.norm(dim=-1, keepdim=True)
        image = image_features / image_features.norm(dim=-1, keepdim=True)
        logits_per_text = self.logit_scale.exp() * text @ image.t()
        return logits_per_text.t().contiguous()


def get_inputs():
    return [torch.randn(16, 77, 512), torch.randint(0, 49408, (16, 77)), torch.randn(48, 512)]


def get_init_inputs():
    return [512, 512]
