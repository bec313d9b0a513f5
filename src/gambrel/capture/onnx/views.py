"""Which steps are another look at the same memory, and where in it: as eager torch has them."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Final, TypeAlias

from gambrel.capture.aten import TensorArg
from gambrel.capture.aten.views import can_view, is_contiguous
from gambrel.capture.onnx.edges import Step

#: Shape, strides and first element of a view, relative to the tensor viewed.
Layout: TypeAlias = tuple[tuple[int, ...], tuple[int, ...], int]
_Rule: TypeAlias = Callable[[Step, TensorArg], "list[Layout] | None"]


def layouts(step: Step, x: TensorArg) -> list[Layout] | None:
    """The views that a step makes of its first input, one for each output; None: it copies."""
    rule = _RULES.get(step.op)
    if rule is None or x.strides is None or x.dtype != (step.out.dtype or x.dtype):
        return None
    if any(e is not None and e.shape is None for e in step.outputs):
        return None
    try:
        return rule(step, x)
    except (ValueError, IndexError, TypeError):
        return None


def dense(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides in row-major order without gaps."""
    return tuple(prod(shape[i + 1 :]) for i in range(len(shape)))


def _reshape(step: Step, x: TensorArg) -> list[Layout] | None:
    shape = step.out.shape or ()
    if is_contiguous(x):
        return [(shape, dense(shape), 0)]
    if not can_view(x, shape):
        return None
    return [(shape, _reshaped(x, shape), 0)]


def _reshaped(x: TensorArg, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of another shape over the same memory, from the last dimension on."""
    old = [(n, s) for n, s in zip(x.shape, x.strides or (), strict=True) if n != 1]
    found: list[int] = []
    filled, length, stride = 1, 1, 1
    if old:
        length, stride = old.pop()
    for size in reversed(shape):
        if size == 1:
            found.append(stride * filled)
            continue
        if filled == length and old:
            filled, (length, stride) = 1, old.pop()
        while filled * size > length and old and old[-1][1] == length * stride:
            length *= old.pop()[0]
        found.append(stride * filled)
        filled *= size
    return tuple(reversed(found))


def _transpose(step: Step, x: TensorArg) -> list[Layout]:
    perm = step.attrs.get("perm") or list(reversed(range(len(x.shape))))
    strides = x.strides or ()
    return [(tuple(x.shape[p] for p in perm), tuple(strides[p] for p in perm), 0)]


def _expand(step: Step, x: TensorArg) -> list[Layout]:
    shape = step.out.shape or ()
    padded = (1,) * (len(shape) - len(x.shape)) + x.shape
    steps = (0,) * (len(shape) - len(x.shape)) + (x.strides or ())
    pairs = zip(padded, shape, steps, strict=True)
    return [(shape, tuple(0 if a == 1 and b != 1 else s for a, b, s in pairs), 0)]


def _slice(step: Step, x: TensorArg) -> list[Layout] | None:
    def numbers(position: int, name: str) -> list[int] | None:
        edge = step.input(position)
        if edge is not None:
            if edge.value is None:
                raise ValueError("a place that depends on data")
            return [int(v) for v in edge.value.reshape(-1)]
        given = step.attrs.get(name)
        return None if given is None else list(given)

    starts = numbers(1, "starts") or []
    axes = numbers(3, "axes") or list(range(len(starts)))
    steps = numbers(4, "steps") or [1] * len(starts)
    if any(s < 0 for s in steps):
        return None
    strides, offset = list(x.strides or ()), 0
    for axis, start, stride in zip(axes, starts, steps, strict=True):
        length = x.shape[axis]
        first = min(max(start + length if start < 0 else start, 0), length)
        offset += first * strides[axis]
        strides[axis] *= stride
    return [(step.out.shape or (), tuple(strides), offset)]


def _split(step: Step, x: TensorArg) -> list[Layout]:
    axis = int(step.attrs.get("axis", 0)) % len(x.shape)
    strides = x.strides or ()
    kept = strides if not step.attrs.get("squeeze") else strides[:axis] + strides[axis + 1 :]
    found, start = [], 0
    for edge in step.outputs:
        shape = () if edge is None or edge.shape is None else edge.shape
        found.append((shape, kept, start * strides[axis]))
        start += 1 if step.attrs.get("squeeze") else (shape[axis] if shape else 0)
    return found


def _gather(step: Step, x: TensorArg) -> list[Layout] | None:
    """One place along an axis, known: ``x[:, 0]``."""
    index = step.x(1)
    if index.scalar is None or x.shape == ():
        return None
    axis = int(step.attrs.get("axis", 0)) % len(x.shape)
    place = int(index.scalar) % max(x.shape[axis], 1)
    strides = x.strides or ()
    between = (1,) * len(index.shape or ())
    kept = (*strides[:axis], *between, *strides[axis + 1 :])
    return [(step.out.shape or (), kept, place * strides[axis])]


def _part(step: Step, _: TensorArg) -> list[Layout]:
    shape = step.out.shape or ()
    return [(shape, dense(shape), 0)]


_RULES: Final[dict[str, _Rule]] = {
    "Reshape": _reshape,
    "Flatten": _reshape,
    "Squeeze": _reshape,
    "Unsqueeze": _reshape,
    "Transpose": _transpose,
    "Expand": _expand,
    "Slice": _slice,
    "Split": _split,
    "Gather": _gather,
    "gambrel::Part": _part,
}
