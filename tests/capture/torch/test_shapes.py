"""Shapes worked out here are those that torch's own functions for meta give."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from gambrel.capture.torch.shapes import SHAPES


def meta(*shape: int, **options: Any) -> torch.Tensor:
    return torch.empty(shape, device="meta", **options)


def norm(x: torch.Tensor, train: bool, parts: int = 4, **options: Any) -> tuple[Any, ...]:
    own = [meta(x.shape[1], **options) if i < parts else None for i in range(4)]
    order = own if parts == 4 else [*own[2:], *own[:2]]
    return (x, *order, train, 0.1, 1e-5)


CALLS = {
    "norm": ("native_batch_norm", norm(meta(2, 8, 5, 5), False)),
    "norm in training": ("native_batch_norm", norm(meta(2, 8, 5, 5), True)),
    "norm without weights": ("native_batch_norm", norm(meta(2, 8, 5, 5), False, 2)),
    "norm of rows": ("native_batch_norm", norm(meta(4, 8), False)),
    "norm of one pixel": ("native_batch_norm", norm(meta(1, 8, 1, 1), False)),
    "cat": ("cat", ([meta(2, 8, 5), meta(2, 3, 5)], 1)),
    "cat of the last": ("cat", ([meta(2, 8, 5), meta(2, 8, 1)], -1)),
    "product": ("mm", (meta(2, 3), meta(3, 5))),
    "product of a transposed": ("mm", (meta(3, 2).t(), meta(5, 3).t())),
    "product of half": ("mm", (meta(2, 3, dtype=torch.half), meta(3, 5, dtype=torch.half))),
    "linear": ("addmm", (meta(5), meta(2, 3), meta(5, 3).t())),
    "linear of nothing": ("addmm", (meta(5), meta(0, 3), meta(3, 5))),
    "cat of one": ("cat", ([meta(3, dtype=torch.int64)],)),
}

#: What is left to torch.
OTHER = {
    "norm of half": ("native_batch_norm", norm(meta(2, 8, 5, 5, dtype=torch.float16), False)),
    "norm of channels last": (
        "native_batch_norm",
        norm(meta(2, 8, 5, 5).to(memory_format=torch.channels_last), False),
    ),
    "product of other sizes": ("mm", (meta(2, 3), meta(2, 3))),
    "product of types": ("mm", (meta(2, 3), meta(3, 5, dtype=torch.float64))),
    "product of vectors": ("mm", (meta(3), meta(3, 5))),
    "linear with a matrix": ("addmm", (meta(2, 5), meta(2, 3), meta(3, 5))),
    "linear with one number": ("addmm", (meta(1), meta(2, 3), meta(3, 5))),
    "cat of types": ("cat", ([meta(2, 3), meta(2, 3, dtype=torch.float64)], 1)),
    "cat of a legacy empty": ("cat", ([meta(0), meta(2, 3)], 1)),
    "cat of other sizes": ("cat", ([meta(2, 3), meta(3, 3)], 1)),
    "cat of a scalar": ("cat", ([meta(), meta()],)),
    "cat of a transposed": ("cat", ([meta(3, 2).t(), meta(2, 3)], 1)),
    "cat of a wrong dimension": ("cat", ([meta(2, 3)], 2)),
}


def described(result: Any) -> list[Any]:
    results = result if isinstance(result, tuple) else (result,)
    return [(t.shape, t.stride(), t.dtype, t.is_meta) for t in results]


@pytest.mark.parametrize("name", CALLS)
def test_the_shapes_are_those_of_torch(name: str) -> None:
    op, args = CALLS[name]
    expected = getattr(torch.ops.aten, op).default(*args)
    assert described(SHAPES[f"aten.{op}"](*args)) == described(expected)


@pytest.mark.parametrize("name", OTHER)
def test_other_calls_are_left_to_torch(name: str) -> None:
    op, args = OTHER[name]
    assert SHAPES[f"aten.{op}"](*args) is None
