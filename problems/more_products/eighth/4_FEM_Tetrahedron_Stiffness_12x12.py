import torch
import torch.nn as nn


class Model(nn.Module):
    """Linear-elastic finite elements on four-node tetrahedra: shape-function gradients from the inverse 3 x 3 Jacobian,
    the 6 x 12 strain matrix B, element stiffness vol * B^T D B (12 x 12), nodal forces and the total strain energy
    for given displacements. Every element has its own Young's modulus, as in topology optimisation."""

    def __init__(self, poisson):
        super().__init__()
        lam = poisson / ((1 + poisson) * (1 - 2 * poisson))
        mu = 0.5 / (1 + poisson)
        d = torch.zeros(6, 6)
        d[:3, :3] = lam
        d += torch.diag(torch.tensor([2 * mu, 2 * mu, 2 * mu, mu, mu, mu]))
        self.register_buffer("d", d)
        # strain component v picks derivative j of displacement component i
        pick = torch.zeros(6, 3, 3)
        for v in range(3):
            pick[v, v, v] = 1
        for v, (i, j) in zip((3, 4, 5), ((0, 1), (1, 2), (0, 2))):
            pick[v, i, j] = pick[v, j, i] = 1
        self.register_buffer("pick", pick)

    def forward(self, xyz, disp, young):
        e = xyz[:, 1:] - xyz[:, :1]
        a, b, c = e.unbind(1)
        bc = torch.linalg.cross(b, c)
        det = (a * bc).sum(-1)
        inv = torch.stack((bc, torch.linalg.cross(c, a), torch.linalg.cross(a, b)), dim=1) / det[:, None, None]
        grads = torch.cat((-inv.sum(1, keepdim=True), inv), dim=1)
        strain = torch.einsum("vij,naj->nvai", self.pick, grads).reshape(-1, 6, 12)
        weight = (det.abs() / 6 * young)[:, None, None]
        k = strain.transpose(1, 2) @ (self.d @ strain) * weight
        u = disp.reshape(-1, 12, 1)
        f = (k @ u).view_as(disp)
        return k, f, 0.5 * (f * disp).sum()


ELEMENTS = 60000


def get_inputs():
    corner = torch.tensor([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    xyz = corner + 0.1 * torch.randn(ELEMENTS, 4, 3)
    return [xyz, 0.1 * torch.randn(ELEMENTS, 4, 3), 0.1 + torch.rand(ELEMENTS)]


def get_init_inputs():
    return [0.3]
