"""Kernels at many sizes at once.

Which ops become one kernel hardly ever depends on how many items run together, and the bytes of a
kernel grow linearly with them. A span is a range of one size within which both hold: they are
checked at its ends, next to them and in its middle, in exact integers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from gambrel.analysis.fusion.grouping import Formed, Grouping
from gambrel.analysis.fusion.onchip import Inner
from gambrel.ops.base import Size
from gambrel.runtimes import Kernels

#: The kernels at one value of the size.
FormedAt: TypeAlias = Callable[[int], Formed]
#: A range of fewer values is evaluated value by value.
_FEWEST = 8


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """A range of a size in which kernels are the same and their bytes linear in it.

    Attributes:
        size: Name of the symbol.
        first: Place of the first value.
        last: Place of the last one.
        low: First value.
        high: Last value.
        formed: Kernels at the first value.
        at_high: Bytes at the last value, in the order of `_numbers`.
    """

    size: str
    first: int
    last: int
    low: int
    high: int
    formed: Formed
    at_high: tuple[int, ...]

    def at(self, values: Any) -> SpanGrouping:
        """The kernels at an array of values within the span."""
        at_low = _numbers(self.formed)
        numbers = iter(
            a if a == b else a + (b - a) // (self.high - self.low) * (values - self.low)
            for a, b in zip(at_low, self.at_high, strict=True)
        )
        return SpanGrouping(_filled(self.formed, numbers))


class SpanGrouping(Grouping):
    """A grouping at many sizes, whose bytes are arrays."""

    def __init__(self, formed: Formed) -> None:
        self._all = formed

    def formed(self, _how: Kernels) -> Formed:
        """The kernels that were formed; what on-chip memory leaves may differ at each size."""
        return self._all


def spans_of(size: str, values: Sequence[int], formed_at: FormedAt) -> Iterator[Span]:
    """The spans of ascending values, in order; values in none of them are to be asked one by one.

    Args:
        size: Name of the symbol.
        values: Of it.
        formed_at: The kernels at one of them; asked again for the same value.
    """
    for span in _spans(values, formed_at, 0, len(values) - 1):
        yield replace(span, size=size)


def _spans(values: Sequence[int], formed_at: FormedAt, first: int, last: int) -> Iterator[Span]:
    if last - first + 1 < _FEWEST:
        return
    for start in (first, first + 1):  # one item is often a case of its own
        span = _span(values, formed_at, start, last)
        if span is not None:
            yield span
            return
    middle = (first + last) // 2
    yield from _spans(values, formed_at, first, middle)
    yield from _spans(values, formed_at, middle + 1, last)


def _span(values: Sequence[int], formed_at: FormedAt, first: int, last: int) -> Span | None:
    low, high = values[first], values[last]
    formed, end = formed_at(low), formed_at(high)
    structure, at_low, at_high = _structure(formed), _numbers(formed), _numbers(end)
    if _structure(end) != structure:
        return None
    grows = [b - a for a, b in zip(at_low, at_high, strict=True)]
    if any(change % (high - low) for change in grows):
        return None
    middle = (first + last) // 2
    for place in {first + 1, middle, middle + 1}:
        value = values[place]
        one = formed_at(value)
        line = (a + n // (high - low) * (value - low) for a, n in zip(at_low, grows, strict=True))
        if _structure(one) != structure or tuple(line) != _numbers(one):
            return None
    return Span(size="", first=first, last=last, low=low, high=high, formed=formed, at_high=at_high)


def _maps(formed: Formed) -> Iterator[Mapping[int, Size]]:
    """Everything of the kernels that may depend on sizes."""
    for kernel in formed.kernels:
        yield kernel.op_read_bytes
        yield kernel.op_write_bytes
    for own in formed.inner:
        yield own.reads
        yield own.writes


def _numbers(formed: Formed) -> tuple[int, ...]:
    return tuple(n for one in _maps(formed) for n in one.values())


def _structure(formed: Formed) -> tuple[Any, ...]:
    """All but the numbers."""
    named = tuple((k.ops, k.kind, k.recomputed, k.repeat, k.launches) for k in formed.kernels)
    return named, tuple(tuple(one) for one in _maps(formed)), formed.scores


def _filled(formed: Formed, numbers: Iterator[Size]) -> Formed:
    """The same with other numbers, in the order of `_numbers`."""

    def filled(one: Mapping[int, Size]) -> dict[int, Size]:
        return {i: next(numbers) for i in one}

    kernels = tuple(
        replace(k, op_read_bytes=filled(k.op_read_bytes), op_write_bytes=filled(k.op_write_bytes))
        for k in formed.kernels
    )
    inner = tuple(Inner(reads=filled(o.reads), writes=filled(o.writes)) for o in formed.inner)
    return Formed(kernels=kernels, inner=inner, scores=formed.scores)
