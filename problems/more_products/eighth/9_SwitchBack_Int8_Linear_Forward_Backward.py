import torch
import torch.nn as nn


class Model(nn.Module):
    """SwitchBack linear layer of int8 CLIP training (ViT-H first MLP layer): the forward product and the input gradient
    use int8 operands, quantised per row for activations and gradients and per tensor for the weight, while the weight
    gradient, whose reduction runs over batch times tokens, stays in bfloat16. Returns y, dx, dw and db."""

    def __init__(self):
        super().__init__()

    @staticmethod
    def quant_rows(t):
        amax = t.abs().amax(dim=-1, keepdim=True).clamp_min(1e-8)
        return torch.round(t * (127.0 / amax)).to(torch.int8), amax

    @staticmethod
    def quant_tensor(t):
        amax = t.abs().amax()
        return torch.round(t * (127.0 / amax)).to(torch.int8), amax

    def forward(self, x, w, b, dy):
        rows = x.reshape(-1, x.shape[-1])
        grad = dy.reshape(-1, dy.shape[-1])
        xq, xs = self.quant_rows(rows.float())
        gq, gs = self.quant_rows(grad.float())
        wq, ws = self.quant_tensor(w.float())
        wf = wq.float()
        y = (xq.float() @ wf.t()) * (xs * ws / 127.0 ** 2) + b.float()
        dx = (gq.float() @ wf) * (gs * ws / 127.0 ** 2)
        dw = grad.t() @ rows
        db = grad.float().sum(0)
        return y.to(x.dtype).view_as(dy), dx.to(x.dtype).view_as(x), dw, db


BATCH, TOKENS, DIM, FFN = 8, 257, 1280, 5120


def get_inputs():
    bf = torch.bfloat16
    return [
        torch.randn(BATCH, TOKENS, DIM).to(bf),
        (torch.randn(FFN, DIM) / DIM ** 0.5).to(bf),
        (0.1 * torch.randn(FFN)).to(bf),
        (0.02 * torch.randn(BATCH, TOKENS, FFN)).to(bf),
    ]


def get_init_inputs():
    return []
