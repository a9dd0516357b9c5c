"""Gradients of a language model's head from logits and their log-sum-exp, as in GPT-2, Llama 2, Qwen2.5 0.5B."""
import torch

WORKLOADS = {
    "small": {"T": 1024, "C": 768, "V": 50257},
    "middle": {"T": 2048, "C": 4096, "V": 32000},
    "large": {"T": 1536, "C": 896, "V": 151936},
}


class Model(torch.nn.Module):
    def __init__(self, C, V):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(V, C, dtype=torch.bfloat16) * C ** -0.5)

    def forward(self, x, logits, lse, target):
        place = target[:, None]
        p = torch.exp(logits.float() - lse[:, None])
        g = p.scatter(1, place, p.gather(1, place) - 1).to(logits.dtype)
        return g @ self.weight, g.T @ x


def get_inputs(T=1024, C=768, V=50257):
    return [torch.randn(T, C, dtype=torch.bfloat16), torch.randn(T, V, dtype=torch.bfloat16),
            11 + 0.1 * torch.randn(T), torch.randint(0, V, (T,))]


def get_init_inputs(T=1024, C=768, V=50257):
    return [C, V]
