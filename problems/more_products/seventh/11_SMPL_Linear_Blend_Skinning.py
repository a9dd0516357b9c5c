import torch
import torch.nn as nn


class Model(nn.Module):
    """SMPL body surface: shape and pose blend shapes, joint regression, blended joint transforms applied to every vertex."""

    def __init__(self, verts, joints, betas):
        super().__init__()
        self.v, self.j = verts, joints
        pose = 9 * (joints - 1)
        self.template = nn.Parameter(0.5 * torch.randn(verts, 3))
        self.shapedirs = nn.Parameter(0.02 * torch.randn(verts, 3, betas))
        self.posedirs = nn.Parameter(0.01 * torch.randn(pose, 3 * verts))
        self.regressor = nn.Parameter(torch.softmax(3.0 * torch.randn(joints, verts), dim=1))
        self.weights = nn.Parameter(torch.softmax(4.0 * torch.randn(verts, joints), dim=1))

    def forward(self, betas, rot, world_rot, world_pos, eye):
        b = betas.shape[0]
        shaped = self.template + torch.einsum("bl,vkl->bvk", betas, self.shapedirs)
        joints = torch.einsum("bvk,jv->bjk", shaped, self.regressor)
        feat = (rot[:, 1:] - eye).reshape(b, -1)
        posed = shaped + (feat @ self.posedirs).view(b, self.v, 3)
        shift = world_pos - torch.einsum("bjmn,bjn->bjm", world_rot, joints)
        rel = torch.cat((world_rot, shift[..., None]), dim=-1)
        t = torch.einsum("vj,bjmn->bvmn", self.weights, rel)
        out = torch.einsum("bvmn,bvn->bvm", t[..., :3], posed) + t[..., 3]
        return out, joints.contiguous()


B, VERTS, JOINTS, BETAS = 64, 6890, 24, 10


def near_rotation(a):
    x, y, z = a.unbind(-1)
    o = torch.zeros_like(x)
    skew = torch.stack((o, -z, y, z, o, -x, -y, x, o), dim=-1).view(*a.shape[:-1], 3, 3)
    return torch.matrix_exp(skew)


def get_inputs():
    return [
        torch.randn(B, BETAS),
        near_rotation(0.4 * torch.randn(B, JOINTS, 3)),
        near_rotation(0.6 * torch.randn(B, JOINTS, 3)),
        0.5 * torch.randn(B, JOINTS, 3),
        torch.eye(3),
    ]


def get_init_inputs():
    return [VERTS, JOINTS, BETAS]
