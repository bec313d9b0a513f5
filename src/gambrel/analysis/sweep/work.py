"""A sweep as work of the engine: cases (what is named) x sizes, any range of them at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from gambrel._version import __version__
from gambrel.analysis.settings import Settings
from gambrel.analysis.sweep.points import SizedPoints, figures, refused
from gambrel.analysis.sweep.record import fields_for
from gambrel.analysis.workbench import machine_on
from gambrel.device.model import Device
from gambrel.engine.grid import PointGrid
from gambrel.engine.tables import DataField, PointTable, joined, repeated, take
from gambrel.errors import GambrelError
from gambrel.workload import Workload

#: Places of points in a range, and the model there.
SizedParts: TypeAlias = "list[tuple[NDArray[np.int64], SizedPoints]]"
#: Points that are evaluated at once: enough to pay for walking over the ops, few enough for caches.
CHUNK: Final = 4096
#: Points of a partition of a few seconds: as array arithmetic, within spans of a size, one by one.
#: Of fewer points array arithmetic makes smaller partitions, so that several processes share them
#: evenly; a task of the smallest takes fifty times what the scheduler has to do for it.
FAST: Final = 1 << 17
LEAST_FAST: Final = 1 << 14
SHARES: Final = 32
SPANNED: Final = 1 << 14
SLOW: Final = 1 << 9


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallerSizes:
    """A model where a size is small: other ops run there than beyond.

    Attributes:
        name: The size.
        most: Its greatest value here.
        workload: The model.
    """

    name: str
    most: int
    workload: Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepCase:
    """What is swept over sizes.

    Attributes:
        labels: Column → text.
        workload: The model; cases of the same one share the object.
        smaller: Where other ops of it run at small sizes: the model there, smallest first.
        device: The machine; as with the workload.
        settings: Precision, runtime and the rest.
    """

    labels: Mapping[str, str]
    workload: Workload
    smaller: tuple[SmallerSizes, ...] = ()
    device: Device
    settings: Settings


@dataclass(frozen=True, kw_only=True)
class SweepWork:
    """All points of a sweep; see `gambrel.engine.work.PointWork`.

    Attributes:
        cases: Axes of what is named.
        opened: From the values of those axes to the case; pickled with what it needs.
        sizes: Axes of sizes.
        size_names: Sizes that are shown.
        label_names: Columns of what is named, besides precision and runtime.
        content: What the values depend on besides the axes: devices, models, constants.
        most_points: Points of a partition, at most.
        times_only: Leave out memory and energy.
        block: Combinations of sizes for which all cases come in a row, so that cases of one model
            share their costs; 0 takes all sizes of a case in a row.
        left_out: Models with ops that every figure leaves out, in sentences.
    """

    cases: PointGrid
    opened: Callable[[Mapping[str, Any]], SweepCase]
    sizes: PointGrid
    size_names: tuple[str, ...]
    label_names: tuple[str, ...]
    content: bytes = b""
    most_points: int = FAST
    times_only: bool = False
    block: int = 0
    left_out: tuple[str, ...] = ()
    _sized: dict[Any, SizedParts] = field(default_factory=dict, repr=False, compare=False)

    @property
    def points(self) -> int:
        """Cases times sizes."""
        return len(self.cases) * len(self.sizes)

    @property
    def partition_points(self) -> int:
        """Points of a partition."""
        shared = max(LEAST_FAST, -(-self.points // SHARES))
        # Whole blocks, whose costs are then computed in one place.
        unit = self.block * len(self.cases)
        if 0 < unit <= self.most_points == FAST:
            shared = -(-shared // unit) * unit
        return min(self.most_points, shared) if self.most_points == FAST else self.most_points

    @property
    def fields(self) -> tuple[DataField, ...]:
        """The columns."""
        named = [n for n in self.label_names if n not in ("precision", "runtime")]
        at = named.index("device") + 1 if "device" in named else len(named)
        return fields_for((*named[:at], "precision", "runtime", *named[at:]), self.size_names)

    @property
    def identity(self) -> bytes:
        """Version, axes and what they mean."""
        axes = [(a.name, [str(v) for v in a.values]) for a in (*self.cases.axes, *self.sizes.axes)]
        return msgspec.json.encode([__version__, axes, self.block]) + self.content

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_sized": {}}

    def evaluate(self, start: int, stop: int) -> PointTable:
        """The columns of a range of points."""
        found: dict[int, PointTable] = {}
        pieces = list(self._pieces(start, stop))
        for (first, last), group in groupby(pieces, key=lambda piece: piece[2:]):
            cases = [(at, self._case(index)) for at, index, *_ in group]
            self._evaluate_group(cases, first, last, found)
        table = joined([found[place] for place in sorted(found)])
        return {
            f.name: np.ascontiguousarray(v) if isinstance(v := table[f.name], np.ndarray) else v
            for f in self.fields
        }

    def _pieces(self, start: int, stop: int) -> Iterator[tuple[int, int, int, int]]:
        """(place, case, first size, one behind the last) of the range."""
        sizes, cases = len(self.sizes), len(self.cases)
        block = self.block or sizes
        at = start
        while at < stop:
            begin = at // (block * cases) * block
            own = min(block, sizes - begin)
            case, offset = divmod(at - begin * cases, own)
            count = min(own - offset, stop - at)
            yield at, case, begin + offset, begin + offset + count
            at += count

    def _case(self, index: int) -> SweepCase:
        return self.opened(self.cases.point(index))

    def _evaluate_group(
        self,
        cases: list[tuple[int, SweepCase]],
        first: int,
        last: int,
        found: dict[int, PointTable],
    ) -> None:
        """Cases over one range of sizes; those of one model share its costs."""
        shared: dict[Any, list[tuple[int, SweepCase]]] = {}
        for at, case in cases:
            key = id(case.workload), case.settings.conventions
            shared.setdefault(key, []).append((at, case))
        for group in shared.values():
            one = group[0][1]
            for begin in range(first, last, CHUNK):
                parts = self._points(one, begin, min(begin + CHUNK, last))
                order = np.argsort(np.concatenate([places for places, _ in parts]))
                for at, case in group:
                    rows = joined([self._rows(points, case) for _, points in parts])
                    found[at + begin - first] = rows if len(parts) == 1 else take(rows, order)

    def _points(self, case: SweepCase, begin: int, end: int) -> SizedParts:
        """The model at some sizes; the last ones are kept for the cases of the next partition."""
        key = id(case.workload), case.settings.conventions, begin, end
        if key not in self._sized:
            self._sized.clear()
            self._sized[key] = list(self._parts(case, begin, end))
        return self._sized[key]

    def _parts(
        self, case: SweepCase, begin: int, end: int
    ) -> Iterator[tuple[NDArray[np.int64], SizedPoints]]:
        """Places of points, and the model there."""
        left = np.ones(end - begin, dtype=bool)
        for part in (*case.smaller, None):
            workload = case.workload if part is None else part.workload
            sizes = self._sizes(workload, begin, end)
            here = left if part is None else left & (sizes[part.name] <= part.most)
            left = left & ~here
            if here.any():
                points = SizedPoints(workload, sizes, end - begin, case.settings.conventions)
                whole = bool(here.all())
                yield np.flatnonzero(here), points if whole else points.some(here)

    def _sizes(self, workload: Workload, begin: int, end: int) -> dict[str, Any]:
        """Symbol → its values; a number where all points have the same one."""
        values: dict[str, Any] = {s.name: s.default for s in workload.symbols}
        places = self.sizes.places(begin, end)
        for axis in self.sizes.axes:
            if len(axis.values) == 1:
                values[axis.name] = axis.values[0]
            else:
                values[axis.name] = np.asarray(axis.values, dtype=float)[places[axis.name]]
        return values

    def _rows(self, points: SizedPoints, case: SweepCase) -> PointTable:
        n = points.count
        try:
            machine = machine_on(case.device, case.settings)
            own = figures(points, machine, case.settings, times_only=self.times_only)
        except GambrelError as error:
            own = refused(n, case.settings, str(error))
        sizes = {
            name: np.broadcast_to(np.asarray(points.sizes[name], dtype=np.int64), (n,))
            for name in self.size_names
        }
        return {**{name: repeated(text, n) for name, text in case.labels.items()}, **sizes, **own}
