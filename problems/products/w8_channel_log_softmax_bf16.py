"""Log-softmax of logits by int8 rows with a scale each, as in Whisper and GPT-2 XL with weights of eight bits."""
import torch

WORKLOADS = {
    "decode": {"T": 5, "C": 1280, "V": 51866},
    "small": {"T": 224, "C": 768, "V": 51865},
    "large": {"T": 2048, "C": 1600, "V": 50257},
}


class Model(torch.nn.Module):
    def forward(self, x, weight, scale):
        logits = (x @ weight.to(x.dtype).T).float() * scale
        return torch.log_softmax(logits, dim=-1)


def get_inputs(T=224, C=768, V=51865):
    return [torch.randn(T, C, dtype=torch.bfloat16), torch.randint(-127, 128, (V, C), dtype=torch.int8),
            (torch.rand(V) + 0.5) / (73 * C ** 0.5)]
