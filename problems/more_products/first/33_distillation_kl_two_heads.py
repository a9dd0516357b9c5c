import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, student_dim, teacher_dim, vocab, temp):
        super().__init__()
        self.student = nn.Linear(student_dim, vocab)
        self.teacher = nn.Linear(teacher_dim, vocab, bias=False)
        self.temp = temp

    def forward(self, hs, ht):
        ls = torch.log_softmax(self.student(hs) / self.temp, dim=-1)
        lt = torch.log_softmax(self.teacher(ht) / self.temp, dim=-1)
        p = lt.exp()
        kl = (p * (lt - ls)).sum(dim=-1) * self.temp**2
        entropy = -(p * lt).sum(dim=-1)
        return kl, entropy, p.amax(dim=-1)


def get_inputs():
    return [4.0 * torch.randn(788, 1000), 6.0 * torch.randn(788, 1537)]


def get_init_inputs():
    return [1000, 1537, 5003, 2.0]
