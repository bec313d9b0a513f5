"""A run: every partition computed once, by whoever is asked, and gathered or written."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gambrel.engine.condition import Condition
from gambrel.engine.executors import VanishedError, outcomes
from gambrel.engine.folder import PartFolder
from gambrel.engine.pareto import Objective, front
from gambrel.engine.tables import PointTable, empty, joined
from gambrel.engine.task import PartOutcome, PartTask
from gambrel.engine.work import Partition, PointWork, identity_of, partitions_of
from gambrel.errors import InputError

#: Told of (points done, points in all, points that were there already).
Told = Callable[[int, int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """How a work is run.

    Attributes:
        where: Filter; None keeps every point.
        pareto: Objectives; empty for no front.
        apart: Column whose values have fronts of their own.
        fronts_only: Whether nothing but the front is kept.
        jobs: Local processes.
        scheduler: As `gambrel.engine.executors.outcomes` takes it.
        told: Called as partitions end.
    """

    where: str | None = None
    pareto: tuple[Objective, ...] = ()
    apart: str = ""
    fronts_only: bool = False
    jobs: int = 1
    scheduler: Any = None
    told: Told | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """What a run gave.

    Attributes:
        points: That were asked for.
        rows: That were kept.
        resumed: Points of partitions that were there already.
        table: The rows in order, where they were not written.
        best: The front over all, where one was asked for.
        partitions: All of them.
    """

    points: int
    rows: int
    resumed: int
    table: PointTable | None
    best: PointTable | None
    partitions: tuple[Partition, ...]


def run(
    work: PointWork, request: RunRequest | None = None, folder: PartFolder | None = None
) -> RunResult:
    """Computes all points.

    Args:
        work: What is asked.
        request: How.
        folder: Where partitions are written, from `folder_for`; None keeps them in memory.

    Raises:
        InputError: The filter, the folder or the scheduler cannot be used, or the disk is full.
    """
    request = request or RunRequest()
    condition = Condition(request.where, work.fields) if request.where else None
    task = PartTask(
        work=work,
        condition=condition,
        objectives=request.pareto,
        apart=request.apart,
        fronts_only=request.fronts_only,
        folder=folder,
    )
    partitions = partitions_of(work, *_texts(request))
    with folder.locked() if folder is not None else contextlib.nullcontext():
        gathered = _Gathered(task, request, len(partitions), work.points)
        try:
            todo = [part for part in partitions if not gathered.resumes(part)]
            for one in outcomes(task, todo, jobs=request.jobs, scheduler=request.scheduler):
                gathered.add(_written(one, folder))
            gathered.check(partitions)
        except (VanishedError, OSError) as error:
            raise InputError(gathered.stopped(error)) from None
    return gathered.result(partitions)


def folder_identity(work: PointWork, request: RunRequest) -> str:
    """What a folder for this run is of."""
    return identity_of(work, *_texts(request))


def _texts(request: RunRequest) -> Iterator[str]:
    """What of a request the stored rows depend on."""
    yield request.where or ""
    if request.fronts_only:
        yield repr((request.pareto, request.apart))


def _written(one: PartOutcome, folder: PartFolder | None) -> PartOutcome:
    """Writes what came from a worker that does not see the folder."""
    if folder is None or one.table is None:
        return one
    folder.write(one.part, one.table, one.rows)
    return dataclasses.replace(one, table=None)


class _Gathered:
    """What has come in so far."""

    def __init__(self, task: PartTask, request: RunRequest, partitions: int, points: int) -> None:
        self._task, self._request, self._all, self._points = task, request, partitions, points
        self._tables: dict[int, PointTable] = {}
        self._best: dict[int, PointTable] = {}
        self._seen: set[int] = set()
        self._rows = self._done = self._resumed = 0

    def resumes(self, part: Partition) -> bool:
        """Whether a partition is there already; it then counts."""
        folder = self._task.folder
        rows = folder.holds(part) if folder is not None else None
        if rows is None:
            return False
        self.add(self._task.stored(part, rows))
        return True

    def add(self, one: PartOutcome) -> None:
        """Takes an outcome in, once for each partition."""
        if one.part.index in self._seen:
            return
        self._seen.add(one.part.index)
        self._rows += one.rows
        self._done += one.part.points
        self._resumed += one.part.points if one.resumed else 0
        if one.table is not None:
            self._tables[one.part.index] = one.table
        if one.best is not None:
            self._best[one.part.index] = one.best
        if self._request.told is not None:
            self._request.told(self._done, self._points, self._resumed)

    def check(self, partitions: Sequence[Partition]) -> None:
        """Raises VanishedError where a partition has not come back."""
        missing = [part for part in partitions if part.index not in self._seen]
        if missing:
            raise VanishedError(f"{len(missing)} partitions did not come back")

    def stopped(self, error: Exception) -> str:
        """A sentence on a run that did not end."""
        reason = getattr(error, "strerror", None) or str(error)
        if isinstance(error, VanishedError):
            reason = f"the scheduler or its workers went away ({reason})"
        folder = self._task.folder
        if folder is None:
            return f"{reason}; nothing is kept. Write to a file with -o to go on where a run ends."
        return (
            f"{reason}; {len(self._seen)} of {self._all} partitions are in {folder.path}: run the "
            "same command again to go on from there."
        )

    def result(self, partitions: tuple[Partition, ...]) -> RunResult:
        """The whole."""
        fields = self._task.work.fields
        table = None
        if self._task.folder is None:
            ordered = [self._tables[i] for i in sorted(self._tables)]
            table = joined(ordered) if ordered else empty(fields)
        best = None
        if self._best:
            ordered = [self._best[i] for i in sorted(self._best)]
            best = front(joined(ordered), self._request.pareto, self._request.apart)
        return RunResult(
            points=self._points,
            rows=self._rows,
            resumed=self._resumed,
            table=table,
            best=best,
            partitions=partitions,
        )
