"""The kernels that a calibration times: every class of op over a grid of sizes.

The grid is generic: multiples of 80 and 96 where models have powers of two and multiples of 768.
No size of a published model is in it on purpose, so that the models are held out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from gambrel.analysis.estimate.classes import LAST

#: Rows of GEMMs, and (columns, inner size) of their weights.
_ROWS: Final = (1, 6, 24, 96, 192, 640, 1280)
_WEIGHTS: Final = (
    (320, 320),
    (640, 640),
    (1280, 320),
    (320, 1280),
    (2560, 640),
    (640, 2560),
    (1600, 1600),
)
#: Rows of tables of words.
_HEADS: Final = (
    (1, 40000, 640),
    (6, 40000, 640),
    (96, 40000, 640),
    (192, 24000, 640),
    (640, 24000, 320),
    (1280, 20000, 320),
)
#: Columns that are no multiple of a vector.
_ODD: Final = (
    (1, 1001, 640),
    (6, 1001, 1280),
    (24, 5003, 640),
    (96, 5003, 320),
    (640, 1001, 640),
    (1, 24001, 640),
    (6, 24001, 640),
    (96, 24001, 640),
    (192, 40001, 640),
    (640, 24001, 640),
    (1280, 24001, 320),
)
#: Matrices at once, rows, columns, inner size.
_BATCHED: Final = ((10, 96, 96, 80), (10, 96, 80, 96), (60, 96, 96, 80), (6, 400, 400, 80))
#: Channels in and out, side of the image, kernel, stride; batches apart.
_BATCHES: Final = (1, 6)
_CONVOLUTIONS: Final = (
    (80, 80, 48, 1, 1),
    (80, 320, 48, 1, 1),
    (320, 80, 48, 1, 1),
    (640, 160, 24, 1, 1),
    (160, 640, 24, 1, 1),
    (1280, 320, 12, 1, 1),
    (320, 1280, 12, 1, 1),
    (1600, 400, 8, 1, 1),
    (400, 1600, 8, 1, 1),
    (20, 120, 96, 1, 1),
    (120, 20, 48, 1, 1),
    (240, 40, 24, 1, 1),
    (40, 240, 24, 1, 1),
    (480, 80, 12, 1, 1),
    (200, 1200, 6, 1, 1),
    (160, 320, 48, 1, 2),
    (320, 640, 24, 1, 2),
    (640, 1280, 12, 1, 2),
    (80, 40, 48, 1, 2),
    (480, 960, 32, 1, 2),
    (960, 1920, 16, 1, 2),
    (3, 40, 192, 7, 2),
    (3, 40, 192, 3, 2),
    (3, 80, 160, 5, 2),
    (80, 80, 48, 3, 1),
    (160, 160, 24, 3, 1),
    (320, 320, 12, 3, 1),
    (480, 480, 8, 3, 1),
    (160, 160, 48, 3, 2),
    (320, 320, 24, 3, 2),
)
#: Channels, side, stride.
_DEPTHWISE: Final = (
    (40, 96, 1),
    (120, 96, 2),
    (120, 48, 1),
    (160, 48, 2),
    (240, 24, 1),
    (480, 12, 1),
    (800, 12, 2),
    (1200, 6, 1),
)
#: Sequences times heads, tokens, width of a head.
_ATTENTION: Final = (
    (10, 96, 80),
    (10, 192, 80),
    (60, 96, 80),
    (60, 192, 48),
    (120, 96, 48),
    (10, 640, 80),
)
#: Rows looked up, rows of the table, width.
_LOOKUPS: Final = ((24, 40000, 640), (192, 40000, 640), (1280, 40000, 640), (5000, 24000, 320))
#: Elements of what streams through: from a call's own cost to fresh pages of main memory.
_ELEMENTS: Final = tuple(5 << n for n in (4, 9, 12, 14, 15, 16, 17, 18, 19, 20))
_LARGEST: Final = 12 << 20
_WIDTH: Final = 640


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One kernel at one size.

    Attributes:
        run: From activations and weights to a result.
        inputs: Activations.
        weights: Shapes of weights; many sets are used in turn, as the layers of a model are.
        variant: Of the class: empty, or in another layout.
    """

    run: Callable[..., Any]
    inputs: tuple[Any, ...]
    weights: tuple[tuple[int, ...], ...] = ()
    variant: str = ""


def cases(dtype: Any) -> Iterator[Case]:
    """All kernels in one number format.

    Args:
        dtype: As torch names it.
    """
    yield from _products(dtype)
    yield from _convolutions(dtype)
    yield from _others(dtype)
    for elements in (*_ELEMENTS, _LARGEST):
        yield from _streams(elements, dtype)


def random(*shape: int, dtype: Any) -> Any:
    """Ordinary positive numbers."""
    import torch

    return torch.rand(*shape).mul_(0.9).add_(0.05).to(dtype)


def _products(dtype: Any) -> Iterator[Case]:
    import torch

    shapes = [(m, n, k) for m in _ROWS for n, k in _WEIGHTS]
    for m, n, k in (*shapes, *_HEADS, *_ODD):
        yield Case(
            run=torch.nn.functional.linear,
            inputs=(random(m, k, dtype=dtype),),
            weights=((n, k), (n,)),
        )
    for b, m, n, k in _BATCHED:
        pair = (random(b, m, k, dtype=dtype), random(b, k, n, dtype=dtype))
        yield Case(run=torch.bmm, inputs=pair)


def _convolutions(dtype: Any) -> Iterator[Case]:
    for batch in _BATCHES:
        for shape in _CONVOLUTIONS:
            yield from _convolution(dtype, batch, *shape)
        for channels, side, stride in _DEPTHWISE:
            yield from _convolution(dtype, batch, channels, 0, side, 3, stride)


def _convolution(
    dtype: Any, batch: int, inputs: int, outputs: int, side: int, kernel: int, stride: int
) -> Iterator[Case]:
    """A convolution in both layouts; no outputs stand for one filter a channel."""
    import torch

    groups = 1 if outputs else inputs
    options = {"stride": stride, "padding": kernel // 2, "groups": groups}
    shape = (outputs or inputs, inputs // groups, kernel, kernel)
    x = random(batch, inputs, side, side, dtype=dtype)

    def run(a: Any, w: Any) -> Any:
        return torch.nn.functional.conv2d(a, w, **options)

    def run_last(a: Any, w: Any) -> Any:
        # Numbers that lie with the channels last, seen in the order of the shape.
        return run(a, w.view(shape[0], kernel, kernel, shape[1]).permute(0, 3, 1, 2))

    yield Case(run=run, inputs=(x,), weights=(shape,))
    last = x.contiguous(memory_format=torch.channels_last)
    yield Case(run=run_last, inputs=(last,), weights=(shape,), variant=LAST)


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
    side = 48 if elements >= 1 << 18 else 8
    channels = max(1, elements // side**2)
    x = random(1, channels, side, side, dtype=dtype)
    c = random(channels, dtype=dtype)
    yield Case(run=lambda a, w: f.batch_norm(a, w, w, w, w), inputs=(x, c))
    yield Case(run=lambda a: f.max_pool2d(a, 3, 2, 1), inputs=(x,))
    yield Case(run=lambda a: f.adaptive_avg_pool2d(a, 1), inputs=(x,))
