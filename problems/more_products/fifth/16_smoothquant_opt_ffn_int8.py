import math
import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH, SEQ, DIM, FFN = 3, 128, 2048, 8192


class Model(nn.Module):
    """SmoothQuant W8A8 OPT-1.3B feed-forward: layer norm to int8, int8 fc1 with ReLU requantised to int8, int8 fc2, fp16 residual."""

    def __init__(self, dim, ffn):
        super().__init__()
        self.ln = nn.LayerNorm(dim)
        for name, o, i in (("1", ffn, dim), ("2", dim, ffn)):
            w = torch.randn(o, i) / math.sqrt(i)
            scale = w.abs().amax(1) / 127.0
            self.register_buffer("w" + name, torch.round(w / scale[:, None]).to(torch.int8))
            self.register_buffer("ws" + name, scale)
            self.register_buffer("b" + name, 0.1 * torch.randn(o))
        self.x_scale = 4.5 / 127.0
        self.h_scale = 5.0 / 127.0

    def forward(self, x):
        n = F.layer_norm(x.float(), self.ln.normalized_shape, self.ln.weight, self.ln.bias, 1e-5)
        xq = torch.clamp(torch.round(n / self.x_scale), -128, 127).to(torch.int8)
        acc = xq.float() @ self.w1.float().t()
        h = F.relu(acc * (self.x_scale * self.ws1) + self.b1)
        hq = torch.clamp(torch.round(h / self.h_scale), -128, 127).to(torch.int8)
        acc = hq.float() @ self.w2.float().t()
        y = acc * (self.h_scale * self.ws2) + self.b2
        return x + y.to(x.dtype)


def get_inputs():
    return [torch.randn(BATCH, SEQ, DIM, dtype=torch.float16)]


def get_init_inputs():
    return [DIM, FFN]
