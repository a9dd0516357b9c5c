"""Gradients of a SwiGLU MLP's input and of its three weights, from the saved gate and up, as in EVA-02 and Llama."""
import torch

WORKLOADS = {
    "small": {"T": 1024, "C": 1024, "H": 2730},
    "middle": {"T": 2048, "C": 2048, "H": 8192},
    "large": {"T": 4096, "C": 4096, "H": 14336},
}


class Model(torch.nn.Module):
    def __init__(self, C, H):
        super().__init__()
        self.gate = torch.nn.Parameter(torch.randn(H, C, dtype=torch.bfloat16) * C ** -0.5)
        self.up = torch.nn.Parameter(torch.randn(H, C, dtype=torch.bfloat16) * C ** -0.5)
        self.down = torch.nn.Parameter(torch.randn(C, H, dtype=torch.bfloat16) * H ** -0.5)

    def forward(self, dy, x, gate, up):
        s, g, u = torch.sigmoid(gate.float()), gate.float(), up.float()
        hidden = (g * s * u).to(x.dtype)
        dhidden = (dy @ self.down).float()
        dup = (dhidden * g * s).to(x.dtype)
        dgate = (dhidden * u * s * (1 + g * (1 - s))).to(x.dtype)
        return dgate @ self.gate + dup @ self.up, dgate.T @ x, dup.T @ x, dy.T @ hidden


def get_inputs(T=2048, C=2048, H=8192):
    return [torch.randn(T, n, dtype=torch.bfloat16) for n in (C, C, H, H)]


def get_init_inputs(T=2048, C=2048, H=8192):
    return [C, H]
