import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Hand-written backward of the feed-forward half of a gated cross-attention layer (Flamingo, Llama 3.2 Vision):
    y = x + tanh(alpha) * W2 gelu(W1 LayerNorm(x)), with everything but x recomputed. Gradients of x, both weights,
    the gate alpha and the norm's gain and bias, in bfloat16 training."""

    def __init__(self):
        super().__init__()

    def forward(self, dy, x, gamma, beta, w1, w2, alpha):
        dim = x.shape[-1]
        xf = x.reshape(-1, dim).float()
        mean = xf.mean(-1, keepdim=True)
        rstd = torch.rsqrt(xf.var(-1, keepdim=True, unbiased=False) + 1e-5)
        xhat = (xf - mean) * rstd
        n = (xhat * gamma + beta).to(x.dtype)
        pre = F.linear(n, w1)
        act = F.gelu(pre)
        out = F.linear(act, w2)

        g = dy.reshape(-1, dim)
        gate = torch.tanh(alpha)
        d_alpha = (g.float() * out.float()).sum() * (1 - gate * gate)
        dout = (g.float() * gate).to(x.dtype)
        dw2 = dout.t() @ act
        dact = (dout @ w2).float()
        pf = pre.float()
        cdf = 0.5 * (1 + torch.erf(pf * 0.7071067811865476))
        pdf = 0.3989422804014327 * torch.exp(-0.5 * pf * pf)
        dpre = (dact * (cdf + pf * pdf)).to(x.dtype)
        dw1 = dpre.t() @ n
        dn = (dpre @ w1).float()
        d_gamma, d_beta = (dn * xhat).sum(0), dn.sum(0)
        dh = dn * gamma
        dx = (dh - dh.mean(-1, keepdim=True) - xhat * (dh * xhat).mean(-1, keepdim=True)) * rstd
        dx = (dx + g.float()).to(x.dtype).view_as(x)
        return dx, dw1, dw2, d_alpha, d_gamma, d_beta


BATCH, SEQ, DIM, FFN = 4, 256, 2048, 8192


def get_inputs():
    bf = torch.bfloat16
    return [
        (0.05 * torch.randn(BATCH, SEQ, DIM)).to(bf),
        torch.randn(BATCH, SEQ, DIM).to(bf),
        1 + 0.1 * torch.randn(DIM),
        0.1 * torch.randn(DIM),
        (torch.randn(FFN, DIM) / DIM ** 0.5).to(bf),
        (torch.randn(DIM, FFN) / FFN ** 0.5).to(bf),
        torch.tensor(0.4),
    ]


def get_init_inputs():
    return []
