import torch
import torch.nn as nn
import torch.nn.functional as F

CLIPS, FRAMES, DIM, CODES, STAGES = 8, 750, 128, 1024, 6


class Model(nn.Module):
    """EnCodec residual vector quantiser: per stage squared distances to 1024 codewords, argmin, subtract. Latents come
    channels-first. Returns codes (stages, clips, frames), the quantised latents and the commitment loss per stage."""

    def __init__(self, stages, codes, dim):
        super().__init__()
        decay = 0.75 ** torch.arange(stages).float()
        self.books = nn.Parameter(torch.randn(stages, codes, dim) * decay[:, None, None])

    def forward(self, latents):
        b, d, t = latents.shape
        flat = latents.transpose(1, 2).reshape(-1, d)
        residual, codes, losses = flat, [], []
        for book in self.books.unbind(0):
            dist = residual.square().sum(1, keepdim=True) - 2.0 * residual @ book.t() + book.square().sum(1)
            idx = dist.argmin(dim=1)
            residual = residual - F.embedding(idx, book)
            codes.append(idx.view(b, t))
            losses.append(residual.square().mean())
        quantised = (flat - residual).view(b, t, d).transpose(1, 2)
        return torch.stack(codes), quantised, torch.stack(losses)


def get_inputs():
    return [1.2 * torch.randn(CLIPS, DIM, FRAMES)]


def get_init_inputs():
    return [STAGES, CODES, DIM]
