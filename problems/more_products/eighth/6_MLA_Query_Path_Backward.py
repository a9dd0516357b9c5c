import torch
import torch.nn as nn


class Model(nn.Module):
    """Backward of the low-rank query path of multi-head latent attention (MiniCPM3 sizes): from per-head dq, the
    rotary part of which is rotated back, through the up projection, the latent's RMSNorm and the down projection.
    The latent is recomputed. Gradients of the hidden states, both weights and the norm's gain."""

    def __init__(self, nope, rope, eps):
        super().__init__()
        self.nope, self.rope, self.eps = nope, rope, eps

    def forward(self, dq, x, w_a, gain, w_b, cos, sin):
        batch, seq, dim = x.shape
        xm = x.reshape(-1, dim)
        c = (xm @ w_a.t()).float()
        rstd = torch.rsqrt(c.pow(2).mean(-1, keepdim=True) + self.eps)
        chat = c * rstd
        n = (chat * gain.float()).to(x.dtype)

        d_nope, d_rope = dq.float().split([self.nope, self.rope], dim=-1)
        half = self.rope // 2
        ds = d_rope * sin
        d_rope = d_rope * cos + torch.cat((ds[..., half:], -ds[..., :half]), dim=-1)
        dflat = torch.cat((d_nope, d_rope), dim=-1).to(x.dtype)
        dflat = dflat.transpose(1, 2).reshape(batch * seq, -1)

        dw_b = dflat.t() @ n
        dn = (dflat @ w_b).float()
        dgain = (dn * chat).sum(0)
        dh = dn * gain.float()
        dc = (rstd * (dh - chat * (dh * chat).mean(-1, keepdim=True))).to(x.dtype)
        dw_a = dc.t() @ xm
        dx = (dc @ w_a).view_as(x)
        return dx, dw_a, dgain, dw_b


BATCH, SEQ, DIM, HEADS, LORA, NOPE, ROPE = 2, 1000, 2560, 40, 768, 64, 32


def get_inputs():
    bf = torch.bfloat16
    angle = torch.arange(SEQ)[:, None] * 10000.0 ** (-torch.arange(0, ROPE, 2) / ROPE)
    angle = torch.cat((angle, angle), dim=-1)
    return [
        (0.1 * torch.randn(BATCH, SEQ, HEADS, NOPE + ROPE)).to(bf).transpose(1, 2),
        torch.randn(BATCH, SEQ, DIM).to(bf),
        (torch.randn(LORA, DIM) / DIM ** 0.5).to(bf),
        (1 + 0.1 * torch.randn(LORA)).to(bf),
        (torch.randn(HEADS * (NOPE + ROPE), LORA) / LORA ** 0.5).to(bf),
        angle.cos(),
        angle.sin(),
    ]


def get_init_inputs():
    return [NOPE, ROPE, 1e-6]
