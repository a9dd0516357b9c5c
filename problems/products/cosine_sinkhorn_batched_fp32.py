"""Feature matching: cosine similarities of 64 small pairs of sets, then Sinkhorn normalisation in log space."""
import torch
import torch.nn as nn
import torch.nn.functional as F

B, T, D, ITERS = 64, 77, 64, 4

class Model(nn.Module):
    def __init__(self, d, iters):
        super().__init__()
        self.iters = iters
        self.weight = nn.Parameter(torch.randn(d, d) * d ** -0.5)
        self.log_temp = nn.Parameter(torch.tensor(-2.0))

    def forward(self, a, b):
        a = F.normalize(a @ self.weight, dim=-1)
        b = F.normalize(b @ self.weight, dim=-1)
        s = torch.bmm(a, b.transpose(1, 2)) / self.log_temp.exp()
        for _ in range(self.iters):
            s = s - torch.logsumexp(s, dim=2, keepdim=True)
            s = s - torch.logsumexp(s, dim=1, keepdim=True)
        return s.exp()

def get_inputs():
    a = torch.randn(B, T, D)
    return [a, 0.6 * a + 0.8 * torch.randn(B, T, D)]

def get_init_inputs():
    return [D, ITERS]
