"""A transformers model captured so that the sizes that were left open stay open."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Final, TypeAlias

from msgspec.structs import replace

from gambrel.errors import WorkloadError
from gambrel.workload import Symbol, Workload
from gambrel.workload.lift import lift

Capture: TypeAlias = Callable[[Mapping[str, int]], Workload]

#: Values of the grid for each size, degree + 1 of them, and two points off it. Numbers that have
#: nothing in common with the usual widths: coincidences would look like structure.
_GRID: Final[dict[str, tuple[int, ...]]] = {
    "batch": (1, 3),
    "seq": (16, 160, 350),
    "target": (16, 70, 90),
    "context": (16, 160),
}
_HELD_OUT: Final = (
    {"batch": 2, "seq": 1000, "target": 33, "context": 1000},
    {"batch": 5, "seq": 77, "target": 80, "context": 77},
)


def capture_open(capture: Capture, symbols: Sequence[Symbol], given: Mapping[str, int]) -> Workload:
    """The workload with the given sizes fixed and the others symbolic.

    Where no polynomial describes the model over all sizes left open, fewer are left open: first
    the batch is fixed to its default, then everything, and the workload says so.

    Args:
        capture: Sizes → workload at these sizes.
        symbols: All sizes of the model.
        given: The values chosen by the user.
    """
    known: dict[tuple[int, ...], Workload] = {}

    def at(sizes: Mapping[str, int]) -> Workload:
        key = tuple(sizes[s.name] for s in symbols)
        if key not in known:
            known[key] = capture(sizes)
        return known[key]

    opened = [s.name for s in symbols if s.name not in given]
    for names in (opened, [n for n in opened if n != "batch"]):
        try:
            if names:
                found = _lifted(at, symbols, given, names)
                return found if names == opened else _with_remark(found, opened, names)
        except WorkloadError:
            continue  # a structure that changes with size: leave fewer sizes open
    found = _fixed(at, symbols, given)
    return _with_remark(found, opened, []) if opened else found


def _lifted(
    at: Capture, symbols: Sequence[Symbol], given: Mapping[str, int], names: Sequence[str]
) -> Workload:
    pinned = {s.name: given.get(s.name, s.default) for s in symbols if s.name not in names}
    free = [replace(s, minimum=_GRID[s.name][0]) for s in symbols if s.name in names]
    points = [{k: p[k] for k in names} for p in _points(free)]
    captures = [(p, at({**pinned, **p})) for p in points]
    lifted = lift(captures, free, {s.name: len(_GRID[s.name]) - 1 for s in free})
    return replace(lifted, symbols=(*free, *_pinned(symbols, pinned)))


def _points(free: Sequence[Symbol]) -> list[dict[str, int]]:
    """The grid and the points held out, moved below a maximum where there is one."""
    names = [s.name for s in free]
    grid = [dict(zip(names, p, strict=True)) for p in product(*(_GRID[n] for n in names))]
    limits = {s.name: s.maximum for s in free}
    return [
        {k: min(v, limits[k] or v) for k, v in p.items()}
        for p in [*grid, *({n: h[n] for n in names} for h in _HELD_OUT)]
    ]


def _fixed(at: Capture, symbols: Sequence[Symbol], given: Mapping[str, int]) -> Workload:
    values = {s.name: given.get(s.name, s.default) for s in symbols}
    return replace(at(values), symbols=_pinned(symbols, values))


def _pinned(symbols: Sequence[Symbol], values: Mapping[str, int]) -> tuple[Symbol, ...]:
    return tuple(
        replace(s, default=values[s.name], minimum=values[s.name], maximum=values[s.name])
        for s in symbols
        if s.name in values
    )


def _with_remark(found: Workload, opened: Sequence[str], kept: Sequence[str]) -> Workload:
    fixed = [f"{s.name}={s.default}" for s in found.symbols if s.name in opened]
    fixed = [text for text in fixed if text.partition("=")[0] not in kept]
    remark = f"Captured at {', '.join(fixed)}: what the model does changes with these sizes."
    return replace(found, assumptions=(*found.assumptions, remark))
