import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Last layer of a diffusion transformer and the sampler's step, half: modulated layer norm, a skinny projection to
    patches (noise and variance), only the noise kept, classifier-free guidance between the two halves of the batch,
    patches put back into an image, and one deterministic DDIM step with a clamped estimate, in float32."""

    def __init__(self, dim, patch, channels, guidance, limit):
        super().__init__()
        self.patch, self.channels, self.guidance, self.limit = patch, channels, guidance, limit
        self.condition = nn.Linear(dim, 2 * dim, dtype=torch.float16)
        self.project = nn.Linear(dim, patch * patch * 2 * channels, dtype=torch.float16)

    def forward(self, tokens, c, latent, alpha, alpha_next):
        batch, ch, height, width = latent.shape
        p = self.patch
        shift, scale = self.condition(F.silu(c))[:, None].chunk(2, dim=-1)
        h = F.layer_norm(tokens, tokens.shape[-1:], eps=1e-6) * (1 + scale) + shift
        y = self.project(h).float().reshape(2 * batch, height // p, width // p, p, p, 2 * ch)
        noise = y[..., :ch]
        conditional, free = noise[:batch], noise[batch:]
        noise = free + self.guidance * (conditional - free)
        noise = noise.permute(0, 5, 1, 3, 2, 4).reshape(batch, ch, height, width)

        a, b = alpha[:, None, None, None], alpha_next[:, None, None, None]
        clean = ((latent - (1 - a).sqrt() * noise) / a.sqrt()).clamp(-self.limit, self.limit)
        noise = (latent - a.sqrt() * clean) / (1 - a).sqrt()
        return b.sqrt() * clean + (1 - b).sqrt() * noise


BATCH, SIDE, PATCH, CHANNELS, DIM = 8, 64, 2, 4, 1152


def get_inputs():
    tokens = (SIDE // PATCH) ** 2
    alpha = 0.3 + 0.5 * torch.rand(BATCH)
    return [
        torch.randn(2 * BATCH, tokens, DIM).half(),
        torch.randn(2 * BATCH, DIM).half(),
        torch.randn(BATCH, CHANNELS, SIDE, SIDE),
        alpha,
        alpha + 0.05,
    ]


def get_init_inputs():
    return [DIM, PATCH, CHANNELS, 4.0, 4.0]
