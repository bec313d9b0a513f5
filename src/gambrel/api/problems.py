"""The limits of a folder of problems on one or more devices: each captured once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gambrel.analysis.question import Question
from gambrel.analysis.workbench import Machine, Workbench
from gambrel.api.analyze import settings_of
from gambrel.device.resolve import asked_devices
from gambrel.errors import GambrelError, InputError

if TYPE_CHECKING:
    from gambrel.advise.judge.records import ProblemRow, Problems


def limits_of_problems(
    question: Question, told: Callable[[int, int, int], None] | None = None
) -> Problems:
    """Every problem of a folder on every device.

    Args:
        question: With the folder, and ``trust`` because problems are code.
        told: Called with the problems that are done, their number, and 0, after each.

    Raises:
        InputError: Without ``trust``.
    """
    from gambrel.advise.judge.records import Problems
    from gambrel.capture.kernelbench import problems_of

    folder = Path(question.problems or "")
    if not question.trust:
        raise InputError(f"the problems in {folder} are code; say --trust to run them.")
    named = str(question.hardware or "").split(",") if question.hardware is not None else None
    devices, _ = asked_devices(named, question.peak, question.bandwidth)
    machines = [Machine(device, settings_of(question)) for device in devices]
    rows: list[ProblemRow] = []
    paths = problems_of(folder)
    for done, path in enumerate(paths):
        if told is not None:
            told(done, len(paths), 0)
        rows += rows_of(path, machines, path.relative_to(folder).with_suffix("").as_posix())
    return Problems(folder=str(folder), rows=tuple(rows))


def rows_of(path: Path, machines: Sequence[Machine], name: str = "") -> list[ProblemRow]:
    """One problem on every device; a problem that cannot be captured says why.

    Args:
        path: The problem.
        machines: The devices.
        name: What to call it; by default as its file is called.
    """
    from gambrel.advise.judge.records import ProblemRow
    from gambrel.capture.kernelbench import workload_of_problem

    name = name or path.stem
    try:
        workload = workload_of_problem(path)
        settings = machines[0].settings
        bench = Workbench(workload, workload.resolve_symbols({}), settings.conventions)
    except GambrelError as error:
        said = str(error)
        return [ProblemRow(problem=name, hardware=m.device.id, error=said) for m in machines]
    return [_row(name, bench, machine) for machine in machines]


def _row(name: str, bench: Workbench, machine: Machine) -> ProblemRow:
    from gambrel.advise.judge.limits import light_of
    from gambrel.advise.judge.records import ProblemRow

    try:
        found = light_of(bench, machine)
    except GambrelError as error:
        return ProblemRow(problem=name, hardware=machine.device.id, error=str(error))
    return ProblemRow(problem=name, hardware=machine.device.id, **found)
