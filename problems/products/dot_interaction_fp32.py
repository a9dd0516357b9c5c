"""Products of every two of a sample's feature vectors, the dense one beside them, as in DLRM."""
import torch

WORKLOADS = {
    "serve": {"B": 128, "S": 26, "D": 128},
    "small": {"B": 2048, "S": 26, "D": 16},
    "large": {"B": 16384, "S": 26, "D": 128},
}


class Model(torch.nn.Module):
    def __init__(self, S):
        super().__init__()
        pairs = torch.tril_indices(S + 1, S + 1, offset=-1)
        self.register_buffer("first", pairs[0].clone())
        self.register_buffer("second", pairs[1].clone())

    def forward(self, dense, sparse):
        features = torch.cat([dense[:, None], sparse], dim=1)
        products = torch.bmm(features, features.transpose(1, 2))
        return torch.cat([dense, products[:, self.first, self.second]], dim=1)


def get_inputs(B=2048, S=26, D=16):
    return [torch.randn(B, D), torch.randn(B, S, D)]


def get_init_inputs(B=2048, S=26, D=16):
    return [S]
