"""A language model's loss: logits and their mean cross entropy in fp32, as in GPT-2, Llama 2 7B and Llama 3.2 1B."""
import torch
import torch.nn.functional as F

WORKLOADS = {
    "small": {"T": 1024, "C": 768, "V": 50257},
    "middle": {"T": 4096, "C": 4096, "V": 32000},
    "large": {"T": 2048, "C": 2048, "V": 128256},
}


class Model(torch.nn.Module):
    def __init__(self, C, V):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(V, C, dtype=torch.bfloat16) * C ** -0.5)

    def forward(self, x, target):
        return F.cross_entropy(F.linear(x, self.weight).float(), target)


def get_inputs(T=1024, C=768, V=50257):
    return [torch.randn(T, C, dtype=torch.bfloat16), torch.randint(0, V, (T,))]


def get_init_inputs(T=1024, C=768, V=50257):
    return [C, V]
