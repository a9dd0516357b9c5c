import torch
import torch.nn as nn


class Model(nn.Module):
    """Dynamic mask heads of CondInst (instance segmentation): a controller turns each detected instance's feature into
    169 numbers, the weights and biases of its own three-layer pointwise network of width 8, which is run over the
    shared mask features joined with coordinates relative to the instance's centre. Returns mask probabilities in half."""

    def __init__(self, dim, channels, stride):
        super().__init__()
        self.c, self.stride = channels, stride
        c = channels
        self.sizes = [(c + 2) * c, c * c, c, c, c, 1]
        self.controller = nn.Linear(dim, sum(self.sizes), dtype=torch.float16)

    def forward(self, instance, centre, reach, features):
        n, c = instance.shape[0], self.c
        h, w = features.shape[-2:]
        w1, w2, w3, b1, b2, b3 = self.controller(instance).split(self.sizes, dim=-1)

        ys = torch.arange(h, device=features.device).float() * self.stride + self.stride // 2
        xs = torch.arange(w, device=features.device).float() * self.stride + self.stride // 2
        grid = torch.stack((xs[None, :].expand(h, w), ys[:, None].expand(h, w))).reshape(1, 2, h * w)
        relative = ((centre[:, :, None] - grid) / reach[:, None, None]).half()

        x = torch.cat((relative, features.reshape(1, c, h * w).expand(n, -1, -1)), dim=1)
        x = torch.relu(torch.baddbmm(b1[:, :, None], w1.reshape(n, c, c + 2), x))
        x = torch.relu(torch.baddbmm(b2[:, :, None], w2.reshape(n, c, c), x))
        x = torch.baddbmm(b3[:, :, None], w3.reshape(n, 1, c), x)
        return torch.sigmoid(x.float()).reshape(n, h, w)


INSTANCES, DIM, CHANNELS, H, W = 80, 256, 8, 100, 136


def get_inputs():
    size = torch.tensor([W * 8.0, H * 8.0])
    return [
        torch.randn(INSTANCES, DIM).half(),
        torch.rand(INSTANCES, 2) * size,
        torch.tensor([64.0, 128.0, 256.0, 512.0])[torch.randint(0, 4, (INSTANCES,))],
        torch.relu(torch.randn(CHANNELS, H, W)).half(),
    ]


def get_init_inputs():
    return [DIM, CHANNELS, 8]
