"""Two runs side by side: how far each kernel moved between them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import msgspec

from gambrel.analysis.samples.place import Placed, Standing


class KernelMove(msgspec.Struct, frozen=True, kw_only=True):
    """One kernel in two runs.

    Attributes:
        name: Of the kernel.
        before: In the run to compare with; None where it is not in it.
        after: In the run that was asked about; None where it is not in it.
        gained_s: Seconds less than before; a kernel that is in one run only counts in full. None
            where a time is unknown.
        speedup: Time before by time after; None unless both are known.
        work_changed: Whether FLOP or launches differ by more than 1 %, so that times do not
            compare the same work.
    """

    name: str
    before: Placed | None
    after: Placed | None
    gained_s: float | None
    speedup: float | None
    work_changed: bool


class Movement(msgspec.Struct, frozen=True, kw_only=True):
    """Two runs.

    Attributes:
        before: The run to compare with.
        after: The run that was asked about.
        moves: The largest change of time first.
        gained_s: Seconds less than before, all kernels; None where a time is unknown.
        speedup: Time before by time after, all kernels.
        notes: What makes the runs hard to compare.
    """

    before: Standing
    after: Standing
    moves: tuple[KernelMove, ...]
    gained_s: float | None
    speedup: float | None
    notes: tuple[str, ...]


def compare(before: Standing, after: Standing) -> Movement:
    """Finds each kernel of one run in the other.

    Kernels meet by name and launch shape, what is left over by name alone where that tells them
    apart.

    Args:
        before: The run to compare with.
        after: The run that is asked about.
    """
    pairs = _meet(before.kernels, after.kernels)
    moves = [_move(a, b) for a, b in pairs]
    moves.sort(key=lambda m: -abs(m.gained_s or 0.0))
    times = before.total.sample.time_s, after.total.sample.time_s
    return Movement(
        before=before,
        after=after,
        moves=tuple(moves),
        gained_s=times[0] - times[1] if None not in times else None,  # type: ignore[operator]
        speedup=_ratio(*times),
        notes=_notes(before, after, moves),
    )


def _meet(
    before: Sequence[Placed], after: Sequence[Placed]
) -> list[tuple[Placed | None, Placed | None]]:
    pairs: list[tuple[Placed | None, Placed | None]] = []
    left_a, left_b = list(before), list(after)
    for whole in (True, False):
        known = _unique(left_a, whole)
        mine = _unique(left_b, whole)
        shared = [key for key in mine if key in known]
        pairs += [(known[key], mine[key]) for key in shared]
        met_a, met_b = {id(known[k]) for k in shared}, {id(mine[k]) for k in shared}
        left_a = [k for k in left_a if id(k) not in met_a]
        left_b = [k for k in left_b if id(k) not in met_b]
    return [*pairs, *((k, None) for k in left_a), *((None, k) for k in left_b)]


def _unique(kernels: Sequence[Placed], whole: bool) -> dict[Hashable, Placed]:
    """Kernels by what identifies them; those that share it are left out."""
    found: dict[Hashable, Placed | None] = {}
    for k in kernels:
        s = k.sample
        key: Hashable = (s.name, s.grid, s.block, s.group, s.origin) if whole else s.name
        found[key] = None if key in found else k
    return {key: k for key, k in found.items() if k is not None}


def _move(before: Placed | None, after: Placed | None) -> KernelMove:
    known = [k for k in (before, after) if k is not None]
    times = [k.sample.time_s if k is not None else 0.0 for k in (before, after)]
    gained = times[0] - times[1] if None not in times else None  # type: ignore[operator]
    both = before is not None and after is not None
    return KernelMove(
        name=known[-1].sample.name,
        before=before,
        after=after,
        gained_s=gained,
        speedup=_ratio(*times) if both else None,
        work_changed=both and _changed(before.sample.flops, after.sample.flops),  # type: ignore[union-attr]
    )


def _ratio(before: float | None, after: float | None) -> float | None:
    return before / after if before and after else None


def _changed(before: int | None, after: int | None) -> bool:
    if before is None or after is None:
        return False
    return abs(before - after) > 0.01 * max(before, after)


def _notes(before: Standing, after: Standing, moves: Sequence[KernelMove]) -> tuple[str, ...]:
    found = []
    names = [s.samples.device_name or (s.device.name if s.device else "") for s in (before, after)]
    if all(names) and names[0] != names[1]:
        found.append(f"two devices: {names[0]} before, {names[1]} after")
    changed = sum(m.work_changed for m in moves)
    if changed:
        found.append(f"{changed} kernels do other work than before: their times do not compare")
    single = sum(m.before is None or m.after is None for m in moves)
    if single:
        found.append(f"{single} kernels are in one of the runs only")
    return tuple(found)
