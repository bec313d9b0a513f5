"""Sizes that a file leaves open: their names, and one workload over them from a few captures."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from gambrel.errors import FileFormatError, WorkloadError
from gambrel.workload import Symbol, Workload
from gambrel.workload.lift import lift

#: More symbols than these are fixed at the sizes of the export: captures grow as 3^symbols.
MAX_SYMBOLS: Final = 2


@dataclass(frozen=True, slots=True)
class DynamicSize:
    """A size that a file leaves open.

    Attributes:
        key: As the file calls it, e.g. ``"s77"``.
        name: As gambrel calls it, e.g. ``"batch"``.
        hint: Its value in the example inputs of an export, else a usual one.
        minimum: Smallest allowed value.
        maximum: Largest, or None.
        about: Which dimension it is.
    """

    key: str
    name: str
    hint: int
    minimum: int
    maximum: int | None
    about: str


def lifted(
    free: list[DynamicSize],
    hints: Mapping[str, int],
    at: Callable[[Mapping[str, int]], Workload],
    step: int,
) -> Workload:
    """The workload over the free symbols; those of sequences and images at multiples of step."""
    steps = [1 if d.name == "batch" else step for d in free]
    symbols = [symbol_of(d, s) for d, s in zip(free, steps, strict=True)]
    axes = [_values(symbol) for symbol in symbols]
    # d + 1 values determine a polynomial of degree d; two more points verify.
    degrees = {d.name: 1 if d.name == "batch" else 2 for d in free}
    taken = [axis[: n + 1] for axis, n in zip(axes, degrees.values(), strict=True)]
    corners = [*itertools.product(*taken), *list(zip(*axes, strict=True))[3:]]
    points = [dict(zip(degrees, corner, strict=True)) for corner in corners]
    captures = [(point, at({**hints, **point})) for point in points]
    return lift(captures, symbols, degrees)


def symbol_of(d: DynamicSize, step: int) -> Symbol:
    """The symbol of a size, at multiples of a step."""
    first = -(-d.minimum // step) * step
    return Symbol(
        name=d.name,
        default=d.hint,
        minimum=first,
        maximum=d.maximum,
        multiple_of=step,
        about=d.about,
    )


def _values(symbol: Symbol) -> list[int]:
    """Five values within the range, the smallest first; WorkloadError when there are fewer."""
    first, step = symbol.minimum, symbol.multiple_of
    found = [first + i * step for i in (0, 1, 2, 5, 9)]
    if symbol.maximum is not None and symbol.maximum < found[-1]:
        found = [first + i * step for i in range(5)]
        if symbol.maximum < found[-1]:
            raise WorkloadError(f"{symbol.name} has too few values to be a symbol")
    return found


def over_batch(
    at: Callable[[Mapping[str, int]], Workload], batch: int, others: tuple[Symbol, ...]
) -> Workload:
    """The workload of a file that leaves the batch open.

    Args:
        at: Reads it at a batch.
        batch: As chosen; where its sizes follow no polynomial, it holds for this one alone.
        others: Symbols behind that of the batch.
    """
    size = DynamicSize("batch", "batch", batch, 1, None, "first dimension of the inputs")
    try:
        return replace(lifted([size], {}, at, 1), symbols=(symbol_of(size, 1), *others))
    except (WorkloadError, FileFormatError):
        fixed = Symbol(name="batch", default=batch, minimum=batch, maximum=batch)
        return replace(at({"batch": batch}), symbols=(fixed, *others))


@dataclass(slots=True)
class DataTrips:
    """Trips of loops whose end depends on data.

    Attributes:
        chosen: As the user said; None counts one.
        met: Whether there is such a loop.
    """

    chosen: int | None
    met: bool = False

    def count(self, note: Callable[[str], None], assumption: str) -> int:
        """How often such a loop runs; the assumption is noted where one trip is counted."""
        self.met = True
        if self.chosen is None:
            note(assumption)
        return 1 if self.chosen is None else self.chosen

    @property
    def symbols(self) -> tuple[Symbol, ...]:
        """The number of trips, where it matters; for another one the file is read again."""
        n = 1 if self.chosen is None else self.chosen
        trip = Symbol(name="trip", default=n, minimum=n, maximum=n, about="trips of loops")
        return (trip,) if self.met else ()


def sizes_text(dynamic: list[DynamicSize]) -> str:
    """Sizes and their values, for a sentence."""
    return ", ".join(f"{d.name}={d.hint}" for d in dynamic)


def label_of(name: str, position: int, rank: int, taken: set[str]) -> str:
    """What a dimension of an input is usually called; its input and place where that is taken."""
    usual = {0: "batch", 1: "seq" if rank <= 3 else "", 2: "height", 3: "width"}
    label = usual.get(position, "") if rank > 1 or position == 0 else ""
    return label if label and label not in taken else f"{name}_{position}"
