"""MLPerf Tiny: microcontrollers, each board by the others, each network by the others; energy."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

from benchmarks.accuracy import Run, Score

import fit_cores
from gambrel.analysis.estimate import packaged
from gambrel.analysis.settings import Settings
from gambrel.analysis.workbench import Machine, Workbench, answered
from gambrel.capture.zoo import load
from gambrel.device.catalog import load as load_device
from tiny_rows import TinyRow, rows

FAMILY = "MLPerf Tiny {dtype}, {cores}"


def score(folder: Path) -> Iterable[Score]:
    """Times by board and by network, then energy."""
    found = tuple(rows(folder))
    for family in fit_cores.FAMILIES:
        mine = fit_cores.own(family, found)
        name = FAMILY.format(dtype=family.dtype, cores=", ".join(family.cores))
        name += f" ({', '.join(family.runtimes)})"
        for way, key in (("device", lambda r: r.device), ("model", lambda r: r.model)):
            held = fit_cores.left_out(family, mine, key)
            if held:
                runs = [_run(r, s) for r, s in held.items()]
                yield Score(what=name, runs=runs, held_out=f"leave one {way} out")
    energies = [r for r in found if r.energy_j is not None]
    yield Score(
        what="MLPerf Tiny, energy at the measured time",
        runs=list(_energies(energies)),
        held_out="leave one model out",
        target="25 %",
    )


def _run(row: TinyRow, expected: float) -> Run:
    one = next(
        c
        for c in packaged().cycles
        if (c.runtime, c.match[0], c.dtype) == (row.runtime, row.core, row.dtype)
    )
    workload = load(row.model)
    settings = Settings(precision=row.dtype, runtime=row.runtime)
    bench = Workbench(workload, workload.resolve_symbols({}), settings.conventions)
    found = answered(bench, Machine(load_device(row.device), settings), settings)
    return Run(
        name=f"{row.device} {row.model} {row.runtime}",
        measured=row.seconds,
        expected=expected,
        low=expected * one.low,
        high=expected * one.high,
        roofline=found.held.time_s,
        sol=found.sol_time_s,
    )


def _energies(found: Sequence[TinyRow]) -> Iterable[Run]:
    """Joules: the power of a board's other networks times the time of this one."""
    for row in found:
        others = [
            r.energy_j / r.seconds
            for r in found
            if r.device == row.device and r.model != row.model and r.energy_j is not None
        ]
        assert row.energy_j is not None
        yield Run(
            name=f"{row.device} {row.model}",
            measured=row.energy_j,
            expected=statistics.median(others) * row.seconds,
        )
