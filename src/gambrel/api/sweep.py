"""Sweeps: every combination of the values of a question, here, on more processes or a cluster."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gambrel.analysis.question import Question
from gambrel.analysis.sweep.record import Sweep
from gambrel.api.faces import asks
from gambrel.errors import InputError, cut

if TYPE_CHECKING:
    from gambrel.engine.pareto import Objective
    from gambrel.engine.run import RunRequest, Told
    from gambrel.engine.work import PointWork

#: More points are not kept in memory; at 15 columns this many take 100 MB.
MOST_KEPT: Final = 1_000_000
#: Metric → its column, the first of these that a work has.
METRICS: Final = {
    "latency": ("expected_time_s", "array_time_s"),
    "throughput": ("items_per_s",),
    "energy": ("energy_per_item_j",),
    "memory": ("memory_bytes",),
    "work": ("flops",),
    "traffic": ("traffic_bytes",),
    "sol": ("sol_time_s",),
    "roofline": ("roofline_time_s",),
    "area": ("area_mm2",),
    "power": ("power_w",),
}
#: Metrics of which more is better.
_LARGEST: Final = {"throughput"}


@asks("sweep")
def sweep(question: Question, told: Told | None = None) -> Sweep:
    """Analyzes every combination of models, devices, number formats, runtimes and sizes.

    Returns:
        One row per combination that `where` keeps; where the points are written as they are
        computed (``save``), the folder or file that has them, and the front.

    Raises:
        GambrelError: Any of its subclasses; the message says what to do.
    """
    from gambrel.analysis.sweep import refuse_if_none
    from gambrel.api.sweep_cases import work_of

    work = work_of(question)
    models = tuple(value.label for value in work.cases.axes[0].values)
    found = computed(question, work, models, told)
    if question.where is None and found.path is None:
        refuse_if_none(found.table)
    return dataclasses.replace(found, warnings=(*found.warnings, *work.left_out))


def computed(
    question: Question,
    work: PointWork,
    models: tuple[str, ...],
    told: Told | None = None,
) -> Sweep:
    """All points of a work, kept in memory or written where the question says.

    Args:
        question: Which are kept, who computes, and the file if any.
        work: The points.
        models: Names of the models.
        told: Takes the progress.

    Raises:
        InputError: More points than are kept in memory, or an unknown objective.
    """
    from gambrel.engine.run import RunRequest

    request = RunRequest(
        where=question.where,
        pareto=_objectives(question.pareto, work),
        apart="model" if len(models) > 1 else "",
        jobs=question.jobs,
        scheduler=question.scheduler,
        told=told,
    )
    if question.save is not None:
        return _saved(question, work, request, models)
    if work.points > MOST_KEPT and request.where is None and not request.pareto:
        raise InputError(
            f"the sweep has {work.points:,} points, more than are kept in memory ({MOST_KEPT:,}); "
            "write them to a file (-o sweep.parquet, in Python save=), or keep fewer with --where "
            "or --pareto."
        )
    return _kept(work, request, question.pareto, models)


def _objectives(given: tuple[str, ...], work: PointWork) -> tuple[Objective, ...]:
    """Objectives as the engine takes them; the columns of the work are some as well."""
    from gambrel.engine.pareto import Objective
    from gambrel.engine.tables import NUMBER, WHOLE
    from gambrel.errors import UnknownNameError

    columns = {f.name for f in work.fields if f.kind in (NUMBER, WHOLE)}
    metrics = {
        name: next(column for column in several if column in columns)
        for name, several in METRICS.items()
        if not columns.isdisjoint(several)
    }
    found = []
    for text in given:
        side, colon, name = text.rpartition(":")
        if colon and side not in ("min", "max"):
            raise InputError(f"--pareto {cut(text)}: write min:COLUMN or max:COLUMN.")
        column = metrics.get(name, name)
        if column not in columns:
            raise UnknownNameError("objective", name, (*metrics, *sorted(columns)))
        largest = side == "max" if colon else name in _LARGEST
        found.append(Objective(column=column, largest=largest))
    return tuple(found)


def _kept(
    work: PointWork, request: RunRequest, pareto: tuple[str, ...], models: tuple[str, ...]
) -> Sweep:
    """A sweep in memory; of more points than that holds, the front alone."""
    from gambrel.engine.run import run
    from gambrel.engine.tables import length

    only = bool(request.pareto) and work.points > MOST_KEPT
    started = time.perf_counter()
    found = run(work, dataclasses.replace(request, fronts_only=only))
    table = found.best if only else found.table
    assert table is not None  # without a folder
    return Sweep(
        models=models,
        fields=work.fields,
        table=table,
        points=work.points,
        rows=length(table) if only else found.rows,
        pareto=pareto,
        front=found.best,
        seconds=time.perf_counter() - started,
    )


def _saved(
    question: Question, work: PointWork, request: RunRequest, models: tuple[str, ...]
) -> Sweep:
    from gambrel.engine.save import save
    from gambrel.engine.tables import empty

    started = time.perf_counter()
    target = Path(str(question.save))
    found = save(work, request, target, asked=asked_text(question))
    return Sweep(
        models=models,
        fields=work.fields,
        table=empty(work.fields),
        points=work.points,
        rows=found.rows,
        pareto=question.pareto,
        front=found.best,
        path=target,
        resumed=found.resumed,
        seconds=time.perf_counter() - started,
    )


def asked_text(question: Question) -> str:
    """The question as a command, for who finds the folder."""
    from gambrel.analysis.commandline import command_of, stated

    return cut(command_of(question.verb, stated(question)))
