import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Cache entry of multi-head latent attention (DeepSeek-V3): the hidden rows are projected down to a latent and a
    shared rotary key; the latent is RMS normed and quantised to float8_e4m3fn with one scale per 128 values, the key is
    rotated in interleaved pairs. Returns the float8 latent, its scales and the bfloat16 key."""

    def __init__(self, dim, latent, rope, block, theta):
        super().__init__()
        self.latent, self.rope, self.block = latent, rope, block
        self.down = nn.Parameter((torch.randn(latent + rope, dim) / dim**0.5).to(torch.bfloat16))
        self.norm = nn.Parameter((1 + 0.1 * torch.randn(latent)).to(torch.bfloat16))
        self.register_buffer("inv_freq", theta ** (-torch.arange(0, rope, 2).float() / rope))

    def forward(self, hidden, positions):
        rows = hidden.shape[0]
        c, key = F.linear(hidden, self.down).split([self.latent, self.rope], dim=-1)

        cf = c.float()
        cf = cf * torch.rsqrt(cf.pow(2).mean(-1, keepdim=True) + 1e-6) * self.norm.float()
        blocks = cf.reshape(rows, self.latent // self.block, self.block)
        scale = blocks.abs().amax(dim=-1, keepdim=True).clamp_min(1e-4) / 448.0
        q = (blocks / scale).to(torch.float8_e4m3fn).reshape(rows, self.latent)

        angle = positions[:, None].float() * self.inv_freq
        cos, sin = angle.cos(), angle.sin()
        even, odd = key[:, 0::2].float(), key[:, 1::2].float()
        key = torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1).flatten(1)
        return q, scale.squeeze(-1), key.to(hidden.dtype)


ROWS, DIM, LATENT, ROPE = 301, 7168, 512, 64


def get_inputs():
    return [torch.randn(ROWS, DIM).to(torch.bfloat16), torch.randint(0, 8192, (ROWS,))]


def get_init_inputs():
    return [DIM, LATENT, ROPE, 128, 10000.0]
