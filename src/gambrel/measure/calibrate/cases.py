"""The kernels that a calibration times: every class of op at the sizes that models have."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

#: Rows of matrix products, and their (columns, inner sizes).
_ROWS: Final = (1, 8, 64, 128, 1024)
_WEIGHTS: Final = (
    (256, 256),
    (512, 512),
    (768, 768),
    (3072, 768),
    (768, 3072),
    (512, 1376),
    (1000, 2048),
    (4096, 1024),
)
_HEADS: Final = ((1, 32000, 512), (8, 32000, 768), (128, 32000, 512), (1024, 32000, 512))
#: Matrices at once, rows, columns, inner size.
_BATCHED: Final = ((12, 128, 128, 64), (12, 128, 64, 128), (96, 128, 128, 64), (8, 512, 512, 64))
#: Batch, channels in and out, side of the image, kernel, stride.
_CONVOLUTIONS: Final = tuple(
    (batch, *shape)
    for batch in (1, 8)
    for shape in (
        (64, 64, 56, 1, 1),
        (64, 256, 56, 1, 1),
        (256, 64, 56, 1, 1),
        (512, 128, 28, 1, 1),
        (1024, 256, 14, 1, 1),
        (512, 2048, 7, 1, 1),
        (2048, 512, 7, 1, 1),
        (16, 96, 112, 1, 1),
        (144, 24, 56, 1, 1),
        (96, 576, 14, 1, 1),
        (160, 960, 7, 1, 1),
        (3, 64, 224, 7, 2),
        (3, 32, 224, 3, 2),
        (64, 64, 56, 3, 1),
        (128, 128, 28, 3, 1),
        (256, 256, 14, 3, 1),
        (512, 512, 7, 3, 1),
        (256, 256, 28, 3, 2),
    )
)
#: Batch, channels, side, stride.
_DEPTHWISE: Final = tuple(
    (batch, *shape)
    for batch in (1, 8)
    for shape in ((32, 112, 1), (96, 112, 2), (144, 56, 1), (192, 28, 1), (576, 14, 1), (960, 7, 1))
)
#: Sequences times heads, tokens, width of a head.
_ATTENTION: Final = ((8, 128, 64), (12, 128, 64), (64, 128, 64), (96, 128, 64), (12, 512, 64))
#: Rows looked up, rows of the table, width.
_LOOKUPS: Final = ((16, 30522, 768), (128, 30522, 768), (1024, 30522, 768), (4096, 32000, 512))
#: Elements of what streams through: from a call's own cost to fresh pages of main memory.
_ELEMENTS: Final = tuple(1 << n for n in (8, 12, 14, 16, 17, 18, 19, 20, 21, 22, 23))
_WIDTH: Final = 768


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One kernel at one size.

    Attributes:
        run: From activations and weights to a result.
        inputs: Activations.
        weights: Shapes of weights; many sets are used in turn, as the layers of a model are.
    """

    run: Callable[..., Any]
    inputs: tuple[Any, ...]
    weights: tuple[tuple[int, ...], ...] = ()


def cases(dtype: Any) -> Iterator[Case]:
    """All kernels in one number format.

    Args:
        dtype: As torch names it.
    """
    yield from _products(dtype)
    yield from _convolutions(dtype)
    yield from _others(dtype)
    for elements in _ELEMENTS:
        yield from _streams(elements, dtype)


def random(*shape: int, dtype: Any) -> Any:
    """Ordinary positive numbers."""
    import torch

    return torch.rand(*shape).mul_(0.9).add_(0.05).to(dtype)


def _products(dtype: Any) -> Iterator[Case]:
    import torch

    shapes = [(m, n, k) for m in _ROWS for n, k in _WEIGHTS]
    for m, n, k in (*shapes, *_HEADS):
        yield Case(
            run=torch.nn.functional.linear,
            inputs=(random(m, k, dtype=dtype),),
            weights=((n, k), (n,)),
        )
    for b, m, n, k in _BATCHED:
        pair = (random(b, m, k, dtype=dtype), random(b, k, n, dtype=dtype))
        yield Case(run=torch.bmm, inputs=pair)


def _convolutions(dtype: Any) -> Iterator[Case]:
    import torch

    def case(batch: int, inputs: int, outputs: int, side: int, kernel: int, stride: int) -> Case:
        groups = inputs if outputs == 0 else 1
        shape = (outputs or inputs, inputs // groups, kernel, kernel)
        options = {"stride": stride, "padding": kernel // 2, "groups": groups}
        return Case(
            run=lambda x, w: torch.nn.functional.conv2d(x, w, **options),
            inputs=(random(batch, inputs, side, side, dtype=dtype),),
            weights=(shape,),
        )

    for shape in _CONVOLUTIONS:
        yield case(*shape)
    for batch, channels, side, stride in _DEPTHWISE:
        yield case(batch, channels, 0, side, 3, stride)


def _others(dtype: Any) -> Iterator[Case]:
    import torch

    for rows, tokens, width in _ATTENTION:
        # The layout that projections leave: tokens before heads.
        q, k, v = (random(1, tokens, rows, width, dtype=dtype).transpose(1, 2) for _ in range(3))
        for causal in (False, True):
            yield Case(run=_attend(causal), inputs=(q, k, v))
    for rows, table, width in _LOOKUPS:
        ids = torch.randint(0, table, (rows,))
        yield Case(run=torch.nn.functional.embedding, inputs=(ids,), weights=((table, width),))


def _attend(causal: bool) -> Callable[..., Any]:
    import torch

    return lambda q, k, v: torch.nn.functional.scaled_dot_product_attention(
        q, k, v, is_causal=causal
    )


def _streams(elements: int, dtype: Any) -> Iterator[Case]:
    import torch

    f = torch.nn.functional
    x, y = random(elements, dtype=dtype), random(elements, dtype=dtype)
    for run in (torch.relu_, lambda a: f.hardtanh_(a, 0.0, 6.0)):
        yield Case(run=run, inputs=(x,))
    for run in (torch.add, torch.mul):
        yield Case(run=run, inputs=(x, y))
    for run in (
        f.gelu,
        torch.tanh,
        f.silu,
        torch.neg,
        torch.cos,
        torch.sin,
        torch.sigmoid,
        torch.rsqrt,
        lambda a: torch.pow(a, 2),
        lambda a: torch.pow(a, 3),
        torch.clone,
    ):
        yield Case(run=run, inputs=(x,))
    yield Case(run=lambda a, b: torch.cat((a, b)), inputs=(x, y))
    if dtype is not torch.float32:
        yield Case(run=lambda a: a.to(torch.float32), inputs=(x,))
        yield Case(run=lambda a: a.to(dtype), inputs=(x.float(),))
    yield from _rows(max(1, elements // _WIDTH), dtype)
    if elements >= 1 << 13:
        yield from _images(elements, dtype)


def _rows(rows: int, dtype: Any) -> Iterator[Case]:
    """What reduces along the last axis."""
    import torch

    f = torch.nn.functional
    x = random(rows, _WIDTH, dtype=dtype)
    one = random(_WIDTH, dtype=dtype)
    yield Case(run=lambda a, w: f.layer_norm(a, (_WIDTH,), w, w), inputs=(x, one))
    yield Case(run=lambda a: torch.softmax(a, -1), inputs=(x,))
    yield Case(run=lambda a: a.mean(-1, keepdim=True), inputs=(x,))


def _images(elements: int, dtype: Any) -> Iterator[Case]:
    import torch

    f = torch.nn.functional
    side, channels = (56, max(1, elements // 3136)) if elements >= 1 << 18 else (7, elements // 49)
    x = random(1, channels, side, side, dtype=dtype)
    c = random(channels, dtype=dtype)
    yield Case(run=lambda a, w: f.batch_norm(a, w, w, w, w), inputs=(x, c))
    yield Case(run=lambda a: f.max_pool2d(a, 3, 2, 1), inputs=(x,))
    yield Case(run=lambda a: f.adaptive_avg_pool2d(a, 1), inputs=(x,))
