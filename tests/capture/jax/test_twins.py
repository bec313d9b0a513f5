"""The same network in torch, Flax and Keras: the same matrix work, parameters and kinds."""

from __future__ import annotations

import pytest

jax = pytest.importorskip("jax")
torch = pytest.importorskip("torch")
linen = pytest.importorskip("flax.linen")

import jax.numpy as jnp  # noqa: E402

import gambrel  # noqa: E402

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

D, HEADS = 64, 4


class Layer(linen.Module):
    @linen.compact
    def __call__(self, x):
        y = linen.LayerNorm()(x)
        x = x + linen.MultiHeadDotProductAttention(HEADS)(y, y)
        y = linen.Dense(4 * D)(linen.LayerNorm()(x))
        return x + linen.Dense(D)(linen.gelu(y))


class Images(linen.Module):
    @linen.compact
    def __call__(self, x):
        x = linen.Conv(16, (3, 3), strides=2)(x)
        x = linen.relu(linen.BatchNorm(use_running_average=True)(x))
        x = linen.max_pool(x, (2, 2), (2, 2))
        x = linen.relu(linen.Conv(32, (3, 3), feature_group_count=4)(x))
        return linen.Dense(10)(x.mean((1, 2)))


class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = torch.nn.ModuleList(torch.nn.Linear(D, D) for _ in range(3))
        self.out = torch.nn.Linear(D, D)

    def forward(self, x):
        shape = (*x.shape[:-1], HEADS, D // HEADS)
        q, k, v = (f(x).reshape(shape).transpose(1, 2) for f in self.qkv)
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v)
        return self.out(y.transpose(1, 2).reshape(x.shape))


class TorchLayer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(D) for _ in range(2))
        self.attention = Attention()
        self.up, self.down = torch.nn.Linear(D, 4 * D), torch.nn.Linear(4 * D, D)

    def forward(self, x):
        x = x + self.attention(self.norms[0](x))
        y = torch.nn.functional.gelu(self.up(self.norms[1](x)), approximate="tanh")
        return x + self.down(y)


def torch_images():
    n = torch.nn
    return n.Sequential(
        n.Conv2d(3, 16, 3, 2, 1),
        n.BatchNorm2d(16),
        n.ReLU(),
        n.MaxPool2d(2),
        n.Conv2d(16, 32, 3, 1, 1, groups=4),
        n.ReLU(),
        n.AdaptiveAvgPool2d(1),
        n.Flatten(),
        n.Linear(32, 10),
    ).eval()


PAIRS = {
    "layer": (
        (Layer(), jax.ShapeDtypeStruct((2, 16, D), jnp.float32)),
        (TorchLayer, (2, 16, D)),
    ),
    "images": (
        (Images(), jax.ShapeDtypeStruct((2, 32, 32, 3), jnp.float32)),
        (torch_images, (2, 3, 32, 32)),
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_twins(name):
    (module, x), (build, shape) = PAIRS[name]
    ours = gambrel.analyze(module, "a100", x)
    twin = gambrel.analyze(build(), "a100", torch.empty(shape, device="meta"))
    assert ours.coverage == twin.coverage == 1
    assert ours.total.matrix_flops == twin.total.matrix_flops
    assert ours.total.traffic_bytes == pytest.approx(twin.total.traffic_bytes, rel=0.01)
    kinds = [[op.kind for op in a.workload.ops if op.kind != "copy"] for a in (ours, twin)]
    assert kinds[0] == kinds[1]
    weights = [
        sum(
            t.elements or jnp.prod(jnp.array(t.shape))
            for t in a.workload.tensors
            if t.role == "weight" and not t.offset
        )
        for a in (ours, twin)
    ]
    assert int(weights[0]) == int(weights[1])
