"""The reference that the candidates of the tests are compared with."""

import torch


class Product(torch.nn.Module):
    def forward(self, a, b):
        return torch.relu(a @ b)


def build():
    return Product(), (torch.randn(192, 256), torch.randn(256, 160))


def narrow():
    """In bf16, where a change of a thousandth is none."""
    return Product(), (torch.randn(192, 256).bfloat16(), torch.randn(256, 160).bfloat16())


class Bag(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Parameter(torch.randn(1000, 64))

    def forward(self, rows):
        return self.table[rows].sum(1)


def indices():
    return Bag(), (torch.randint(0, 1000, (64, 512)),)


class Triangle(torch.nn.Module):
    def forward(self, a, b):
        return torch.triu(a @ b)


def triangles():
    return Triangle(), (torch.triu(torch.randn(96, 96)), torch.triu(torch.randn(96, 96)))
