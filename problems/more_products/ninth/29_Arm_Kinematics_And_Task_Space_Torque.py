import torch
import torch.nn as nn


class Model(nn.Module):
    """Task space control of thousands of simulated seven-joint arms: the transforms of the links (modified
    Denavit-Hartenberg) are chained by small batched products, the geometric Jacobian is built from the axes, and a
    spring and damper at the hand give joint torques by its transpose. Returns pose, Jacobian, torques and J J^T."""

    def __init__(self, a, d, alpha, stiffness, damping):
        super().__init__()
        alpha = torch.tensor(alpha)
        self.register_buffer("a", torch.tensor(a))
        self.register_buffer("d", torch.tensor(d))
        self.register_buffer("ca", alpha.cos())
        self.register_buffer("sa", alpha.sin())
        self.stiffness, self.damping = stiffness, damping

    def forward(self, angle, speed, goal, goal_rotation):
        batch, joints = angle.shape
        c, s = angle.cos(), angle.sin()
        ca, sa = self.ca.expand_as(c), self.sa.expand_as(c)
        zero, one = torch.zeros_like(c), torch.ones_like(c)
        link = torch.stack(
            (
                torch.stack((c, -s, zero, self.a.expand_as(c)), dim=-1),
                torch.stack((s * ca, c * ca, -sa, -self.d * sa), dim=-1),
                torch.stack((s * sa, c * sa, ca, self.d * ca), dim=-1),
                torch.stack((zero, zero, zero, one), dim=-1),
            ),
            dim=-2,
        )
        pose = link[:, 0]
        frames = [pose]
        for j in range(1, joints):
            pose = torch.bmm(pose, link[:, j])
            frames.append(pose)
        frames = torch.stack(frames, dim=1)

        axis, origin = frames[:, :, :3, 2], frames[:, :, :3, 3]
        hand, rotation = pose[:, :3, 3], pose[:, :3, :3]
        linear = torch.linalg.cross(axis, hand[:, None] - origin)
        jacobian = torch.cat((linear, axis), dim=-1).transpose(1, 2)

        turn = 0.5 * torch.linalg.cross(rotation, goal_rotation, dim=1).sum(dim=-1)
        error = torch.cat((goal - hand, turn), dim=-1)[..., None]
        wrench = self.stiffness * error - self.damping * torch.bmm(jacobian, speed[..., None])
        torque = torch.bmm(jacobian.transpose(1, 2), wrench)[..., 0]
        return pose, jacobian, torque, torch.bmm(jacobian, jacobian.transpose(1, 2))


ARMS, JOINTS = 6007, 7
HALF = 1.5707963


def get_inputs():
    return [
        2 * torch.rand(ARMS, JOINTS) - 1,
        0.5 * torch.randn(ARMS, JOINTS),
        torch.rand(ARMS, 3),
        torch.linalg.qr(torch.randn(ARMS, 3, 3)).Q,
    ]


def get_init_inputs():
    return [
        [0.0, 0.0, 0.0, 0.0825, -0.0825, 0.0, 0.088],
        [0.333, 0.0, 0.316, 0.0, 0.384, 0.0, 0.107],
        [0.0, -HALF, HALF, HALF, -HALF, HALF, HALF],
        20.0,
        2.0,
    ]
