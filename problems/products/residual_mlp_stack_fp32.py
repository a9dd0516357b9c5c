"""Three pre-norm residual GELU blocks in fp32 over simulation nodes."""
import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS, D, FF, DEPTH = 1500, 512, 2048, 3

class Model(nn.Module):
    def __init__(self, d, ff, depth):
        super().__init__()
        self.d, self.depth = d, depth
        self.g = nn.Parameter(1 + 0.1 * torch.randn(depth, d))
        self.b = nn.Parameter(0.1 * torch.randn(depth, d))
        self.w1 = nn.Parameter(torch.randn(depth, d, ff) * d ** -0.5)
        self.b1 = nn.Parameter(0.1 * torch.randn(depth, ff))
        self.w2 = nn.Parameter(torch.randn(depth, ff, d) * ff ** -0.5)
        self.b2 = nn.Parameter(0.1 * torch.randn(depth, d))

    def forward(self, x):
        for i in range(self.depth):
            h = F.layer_norm(x, (self.d,), self.g[i], self.b[i])
            h = F.gelu(torch.addmm(self.b1[i], h, self.w1[i]))
            x = x + torch.addmm(self.b2[i], h, self.w2[i])
        return x

def get_inputs():
    return [torch.randn(ROWS, D)]

def get_init_inputs():
    return [D, FF, DEPTH]
