import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.fc1 = nn.Linear(dim, hidden, dtype=torch.float16)

    def forward(self, x, grad_act):
        pre = self.fc1(x)
        s = torch.sigmoid(1.702 * pre)
        d_pre = grad_act * (s + 1.702 * pre * s * (1 - s))
        dx = torch.matmul(d_pre, self.fc1.weight)
        flat = d_pre.reshape(-1, d_pre.shape[-1])
        dw = torch.matmul(flat.transpose(0, 1), x.reshape(-1, x.shape[-1]))
        db = flat.sum(dim=0, dtype=torch.float32)
        return dx, dw, db


def get_inputs():
    return [
        torch.randn(16, 257, 1024, dtype=torch.float16),
        torch.randn(16, 257, 4096, dtype=torch.float16),
    ]


def get_init_inputs():
    return [1024, 4096]
