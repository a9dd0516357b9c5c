import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS, DIM, FFN = 1, 2560, 10240


class Model(nn.Module):
    """Phi-2 decode step between two attentions: parallel attention-out and MLP on one layer norm, then the next layer's QKV."""

    def __init__(self, dim, ffn):
        super().__init__()
        self.ln = nn.LayerNorm(dim)
        self.dense = nn.Linear(dim, dim)
        self.fc1 = nn.Linear(dim, ffn)
        self.fc2 = nn.Linear(ffn, dim)
        self.next_ln = nn.LayerNorm(dim)
        self.next_qkv = nn.Linear(dim, 3 * dim)
        self.to(torch.float16)

    def forward(self, hidden, attn):
        x = self.ln(hidden)
        mlp = self.fc2(F.gelu(self.fc1(x), approximate="tanh"))
        hidden = self.dense(attn) + mlp + hidden
        q, k, v = self.next_qkv(self.next_ln(hidden)).chunk(3, dim=-1)
        return hidden, q, k, v


def get_inputs():
    return [2.0 * torch.randn(ROWS, DIM, dtype=torch.float16), torch.randn(ROWS, DIM, dtype=torch.float16)]


def get_init_inputs():
    return [DIM, FFN]
