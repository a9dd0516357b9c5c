"""Single-stream diffusion block: text and image tokens joined, modulated, one wide linear for qkv and MLP."""
import torch
import torch.nn as nn
import torch.nn.functional as F

B, TXT, IMG, D, HEADS, MLP = 1, 512, 1024, 3072, 24, 12288

class Model(nn.Module):
    def __init__(self, d, heads, mlp):
        super().__init__()
        self.d, self.heads, self.mlp = d, heads, mlp
        n = 3 * d + mlp
        self.weight = nn.Parameter((torch.randn(n, d) * d ** -0.5).bfloat16())
        self.bias = nn.Parameter((0.1 * torch.randn(n)).bfloat16())

    def forward(self, txt, img, shift, scale):
        x = torch.cat([txt, img], dim=1)
        x = F.layer_norm(x, (self.d,), eps=1e-6)
        x = (1 + scale[:, None, :]) * x + shift[:, None, :]
        qkv, m = F.linear(x, self.weight, self.bias).split([3 * self.d, self.mlp], dim=-1)
        b, t, _ = qkv.shape
        qkv = qkv.view(b, t, 3, self.heads, self.d // self.heads).permute(2, 0, 3, 1, 4)
        return qkv, F.gelu(m, approximate="tanh")

def get_inputs():
    return [torch.randn(B, TXT, D).bfloat16(), torch.randn(B, IMG, D).bfloat16(),
            (0.2 * torch.randn(B, D)).bfloat16(), (0.2 * torch.randn(B, D)).bfloat16()]

def get_init_inputs():
    return [D, HEADS, MLP]
