"""One task: a partition that is computed, filtered and written by whoever has it."""

from __future__ import annotations

import pickle
import threading
from dataclasses import dataclass, field

from gambrel.engine.condition import Condition
from gambrel.engine.folder import PartFolder
from gambrel.engine.pareto import Objective, front
from gambrel.engine.tables import PointTable, length, take
from gambrel.engine.work import Partition, PointWork


@dataclass(frozen=True, slots=True, kw_only=True)
class PartTask:
    """What every partition of a run is computed from.

    Attributes:
        work: The points.
        condition: Which of them are kept; None keeps all.
        objectives: Of the front that is kept of each partition; empty for none.
        apart: Column whose values have fronts of their own.
        fronts_only: Of a partition nothing but its front is kept.
        folder: Where partitions are written; None brings them back.
    """

    work: PointWork
    condition: Condition | None = None
    objectives: tuple[Objective, ...] = ()
    apart: str = ""
    fronts_only: bool = False
    folder: PartFolder | None = None

    def run(self, part: Partition) -> PartOutcome:
        """Computes a partition, unless it is there."""
        folder = self.folder if self.folder is not None and self.folder.visible() else None
        if folder is not None:
            rows = folder.holds(part)
            if rows is not None:
                return self.stored(part, rows)
        table = self.work.evaluate(part.start, part.stop)
        if self.condition is not None:
            table = take(table, self.condition.holds(table))
        best = front(table, self.objectives, self.apart) if self.objectives else None
        if self.fronts_only and best is not None:
            table = best
        rows = length(table)
        if folder is None:
            return PartOutcome(part=part, rows=rows, table=table, best=best)
        folder.write(part, table, rows)
        return PartOutcome(part=part, rows=rows, best=best)

    def stored(self, part: Partition, rows: int) -> PartOutcome:
        """What a partition on disk says."""
        assert self.folder is not None
        best = None
        if self.objectives:
            best = front(self.folder.read(part), self.objectives, self.apart)
        return PartOutcome(part=part, rows=rows, best=best, resumed=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartOutcome:
    """What became of a partition.

    Attributes:
        part: Which.
        rows: That are kept of it.
        table: The rows, where they are not written.
        best: Its front, where one is asked for.
        resumed: It was there already.
    """

    part: Partition
    rows: int
    table: PointTable | None = field(default=None, repr=False)
    best: PointTable | None = field(default=None, repr=False)
    resumed: bool = False


_known = threading.local()


def run_packed(part: Partition, packed: bytes) -> PartOutcome:
    """Runs a task that came as bytes; each thread keeps the last one that it unpacked."""
    if getattr(_known, "packed", None) != packed:
        _known.packed, _known.task = packed, pickle.loads(packed)
    task: PartTask = _known.task
    return task.run(part)
