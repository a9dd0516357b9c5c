"""Weight and bias gradients of a linear, unscaled from loss scaling and added to fp32 accumulators."""
import torch
import torch.nn as nn
import torch.nn.functional as F

B, T, K, N = 8, 1000, 1024, 768

class Model(nn.Module):
    def __init__(self, loss_scale):
        super().__init__()
        self.inv_scale = 1.0 / loss_scale

    def forward(self, x, dy, acc_w, acc_b):
        x2 = x.reshape(-1, x.shape[-1])
        dy2 = dy.reshape(-1, dy.shape[-1])
        dw = (dy2.t() @ x2).float() * self.inv_scale
        db = dy2.float().sum(0) * self.inv_scale
        return acc_w + dw, acc_b + db

def get_inputs():
    return [torch.randn(B, T, K).half(), torch.randn(B, T, N).half(),
            0.1 * torch.randn(N, K), 0.1 * torch.randn(N)]

def get_init_inputs():
    return [1024.0]
