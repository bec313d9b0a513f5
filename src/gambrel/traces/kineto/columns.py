"""A trace as columns of numbers: a million events in some tens of megabytes.

Texts and shapes repeat from step to step, so each is kept once and named by its number.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from gambrel.traces.kineto.events import Args, TraceEvent, kind_of, to_int

#: Stands for an id that an event lacks.
NONE: Final = -1
_NO_ARGS: Final = Args()
_LARGEST_ID: Final = 2**62

T = TypeVar("T", bound=Hashable)
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class RecordedOp(NamedTuple):
    """An op with the arguments that its cost depends on, as recorded."""

    name: str
    dims: bytes
    types: bytes
    concrete: bytes


class LaunchShape(NamedTuple):
    """Launch shape of a kernel as recorded; occupancy as a share."""

    grid: str
    block: str
    occupancy: float | None


class NameTable(Generic[T]):
    """Values by number, each once."""

    def __init__(self) -> None:
        self._numbers: dict[T, int] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def number(self, value: T) -> int:
        """The number of a value; a new one for a new value."""
        return self._numbers.setdefault(value, len(self._numbers))

    def numbers(self, values: Sequence[T]) -> list[int]:
        """The numbers of values."""
        known = self._numbers
        for value in set(values).difference(known):
            known[value] = len(known)
        return [known[value] for value in values]

    def values(self) -> list[T]:
        """All values, by number."""
        return list(self._numbers)


@dataclass(slots=True)
class Spans:
    """Events of one kind: start and length in microseconds, and what else is needed, by column.

    Attributes:
        start: Microseconds after the first event of the file, because a time since 1970 leaves
            no digits for the nanoseconds.
        length: Microseconds.
        ids: Id of the op that the event is or belongs to.
        keys: Number of the thread, or of the device.
        names: Number of the name, or of the op call.
        correlations: Number of the launch; empty for ops.
        shapes: Number of the launch shape; empty but for kernels.
    """

    start: array[float] = field(default_factory=lambda: array("d"))
    length: array[float] = field(default_factory=lambda: array("d"))
    ids: array[int] = field(default_factory=lambda: array("q"))
    keys: array[int] = field(default_factory=lambda: array("i"))
    names: array[int] = field(default_factory=lambda: array("i"))
    correlations: array[int] = field(default_factory=lambda: array("q"))
    shapes: array[int] = field(default_factory=lambda: array("i"))

    def __len__(self) -> int:
        return len(self.start)

    @property
    def starts(self) -> Floats:
        """`start` as numpy sees it."""
        return np.frombuffer(self.start, dtype=np.float64)

    @property
    def ends(self) -> Floats:
        """Microseconds after the first event of the file."""
        return self.starts + self.lengths

    @property
    def lengths(self) -> Floats:
        """`length` as numpy sees it."""
        return np.frombuffer(self.length, dtype=np.float64)


class TraceColumns:
    """What a trace holds, as far as it is needed.

    Attributes:
        kernels: Device activity that computes or communicates.
        copies: Copies and fills of the device.
        ops: Calls of operators.
        launches: Calls of the driver or runtime.
        ranges: Modules, and ranges that the program annotated.
        names: NameTable of kernels, copies and launches.
        calls: Ops with their arguments.
        threads: Process and thread.
        devices: As recorded.
        shapes: Of launches.
        skipped: Events without a usable time.
    """

    def __init__(self) -> None:
        self.kernels, self.copies, self.ops, self.launches = Spans(), Spans(), Spans(), Spans()
        self.ranges = Spans()
        self.names: NameTable[str] = NameTable()
        self.calls: NameTable[RecordedOp] = NameTable()
        self.threads: NameTable[tuple[str, str]] = NameTable()
        self.devices: NameTable[str] = NameTable()
        self.shapes: NameTable[LaunchShape] = NameTable()
        self.skipped = 0
        self._threads_seen: dict[tuple[Any, Any], int] = {}
        self._first: float | None = None

    @property
    def first(self) -> float:
        """Microseconds that times count from."""
        return self._first or 0.0

    def add(self, events: Sequence[TraceEvent]) -> None:
        """Takes the events of a piece."""
        alike: dict[str, list[TraceEvent]] = defaultdict(list)
        for event in events:
            alike[event.cat if type(event.cat) is str else ""].append(event)
        parts: dict[str, list[TraceEvent]] = {}
        for category, found in alike.items():
            kind = self._kind(category)
            if kind:
                parts.setdefault(kind, []).extend([e for e in found if e.ph == "X"])
        if "ranges" in parts:
            parts["ranges"] = [e for e in parts["ranges"] if _is_range(e)]
        for kind, found in parts.items():
            getattr(self, f"_add_{kind}")(*self._timed(found, getattr(self, kind)))

    @staticmethod
    def _kind(category: Any) -> str:
        kind = kind_of(category)
        return _COLUMNS.get(kind, "launches" if kind.endswith(("_runtime", "_driver")) else "")

    def _timed(self, events: list[TraceEvent], spans: Spans) -> tuple[list[TraceEvent], list[Args]]:
        """Adds the times of events; returns those that have one, with their arguments."""
        try:
            starts = np.array([e.ts for e in events], dtype=np.float64)
            lengths = np.array([e.dur for e in events], dtype=np.float64)
            good = (lengths >= 0) & (lengths < 1e15) & (np.abs(starts) < 1e18)
            flat = starts.shape == lengths.shape == (len(events),)  # no lists among them
            whole = flat and bool(good.all())
        except (TypeError, ValueError, OverflowError):
            whole = False
        if not whole:
            known = [(e, span) for e in events if (span := e.span) is not None]
            self.skipped += len(events) - len(known)
            events = [e for e, _ in known]
            starts = np.array([s for _, (s, _) in known], dtype=np.float64)
            lengths = np.array([float(e.dur) for e, _ in known], dtype=np.float64)
        if self._first is None and len(starts):
            self._first = float(starts[0])
        spans.start.frombytes((starts - self.first).tobytes())
        spans.length.frombytes(lengths.tobytes())
        return events, [e.args or _NO_ARGS for e in events]

    def _add_ops(self, events: list[TraceEvent], args: list[Args]) -> None:
        ops = self.ops
        ops.ids.extend(_ids([a.external_id for a in args], [a.external_id_low for a in args]))
        ops.keys.extend(self._threads(events))
        calls = [
            (name, bytes(a.dims), bytes(a.types), bytes(a.concrete))
            for name, a in zip(_texts(events), args, strict=True)
        ]
        none = b"null"
        if any(dims == none for _, dims, _, _ in calls):
            calls = [
                (name, bytes(a.old_dims) if dims == none else dims, types, concrete)
                for (name, dims, types, concrete), a in zip(calls, args, strict=True)
            ]
        ops.names.extend(self.calls.numbers(calls))  # type: ignore[arg-type]

    def _add_launches(self, events: list[TraceEvent], args: list[Args]) -> None:
        launches = self.launches
        launches.keys.extend(self._threads(events))
        launches.names.extend(self.names.numbers(_texts(events)))
        launches.correlations.extend(_ids([a.correlation for a in args]))

    def _add_kernels(self, events: list[TraceEvent], args: list[Args]) -> None:
        kernels = self.kernels
        kernels.names.extend(self.names.numbers(_texts(events)))
        kernels.ids.extend(_ids([a.external_id for a in args], [a.external_id_low for a in args]))
        kernels.correlations.extend(_ids([a.correlation for a in args]))
        kernels.keys.extend(self._devices(events, args))
        shapes = [(bytes(a.grid), bytes(a.block), str(a.occupancy)) for a in args]
        first = dict(zip(reversed(shapes), reversed(args), strict=True))
        known = {
            shape: self.shapes.number(_shape(*shape[:2], a.occupancy)) for shape, a in first.items()
        }
        kernels.shapes.extend([known[shape] for shape in shapes])

    def _add_ranges(self, events: list[TraceEvent], _args: list[Args]) -> None:
        self.ranges.keys.extend(self._threads(events))
        self.ranges.names.extend(self.names.numbers(_texts(events)))

    def _add_copies(self, events: list[TraceEvent], args: list[Args]) -> None:
        self.copies.names.extend(self.names.numbers(_texts(events)))
        self.copies.keys.extend(self._devices(events, args))

    def _threads(self, events: list[TraceEvent]) -> list[int]:
        seen = self._threads_seen
        try:
            for pair in {(e.pid, e.tid) for e in events}.difference(seen):
                seen[pair] = self.threads.number((str(pair[0]), str(pair[1])))
            return [seen[e.pid, e.tid] for e in events]
        except TypeError:  # neither numbers nor texts
            return self.threads.numbers([(str(e.pid), str(e.tid)) for e in events])

    def _devices(self, events: list[TraceEvent], args: list[Args]) -> list[int]:
        return self.devices.numbers(
            [
                str(e.pid if a.device is None else a.device)
                for e, a in zip(events, args, strict=True)
            ]
        )


_COLUMNS: Final = {
    "kernel": "kernels",
    "gpu_memcpy": "copies",
    "gpu_memset": "copies",
    "cpu_op": "ops",
    "user_annotation": "ranges",
    "python_function": "ranges",
}


def _is_range(event: TraceEvent) -> bool:
    """Modules among the functions; annotations but for the profiler's own steps."""
    name = str(event.name)
    if kind_of(event.cat) == "python_function":
        return name.startswith("nn.Module: ")
    return not name.startswith("ProfilerStep")


def _texts(events: Sequence[TraceEvent]) -> list[str]:
    return [e.name if type(e.name) is str else str(e.name) for e in events]


def _shape(grid: bytes, block: bytes, occupancy: Any) -> LaunchShape:
    texts = ["" if raw == b"null" else raw.decode("utf-8", "replace")[:64] for raw in (grid, block)]
    good = isinstance(occupancy, int | float) and 0 <= occupancy <= 100
    return LaunchShape(texts[0], texts[1], occupancy / 100 if good else None)


def _ids(values: list[Any], others: list[Any] | None = None) -> array[int]:
    """Ids as integers, 7 or "7"; `NONE` where there is none."""
    try:
        return array("q", values)
    except (TypeError, OverflowError):
        pass
    if others is not None:
        values = [b if a is None else a for a, b in zip(values, others, strict=True)]
    return array("q", [_id(v) for v in values])


def _id(value: Any) -> int:
    number = to_int(value)
    return number if number is not None and 0 <= number < _LARGEST_ID else NONE
