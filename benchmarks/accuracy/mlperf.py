"""MLPerf Inference and cards: whole models under TensorRT on GPUs, by oneDNN's kernels on Xeons.

Every row is predicted twice: by constants that saw no row of its model, and no row of its device.
"""

from __future__ import annotations

import csv
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TypeAlias

from benchmarks.accuracy import Run, Score

import gambrel
from gambrel.analysis.estimate import packaged
from gambrel.analysis.settings import Settings
from gambrel.analysis.workbench import Machine, answered
from gambrel.device.catalog import load

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))
import card_rows
import fit_engines
from mlperf_rows import Row, bench, rows

TARGETS = {"stable": "12 %"}
GEFORCE = Path(__file__).parents[1] / "data" / "cards" / "geforce_tensorrt.csv"
#: Ends of measured / predicted, by number format.
Ends: TypeAlias = Callable[[str], tuple[float, float]]
#: Runtime, rows, their predicted times, how they were held out, the range → scores.
Scorer: TypeAlias = Callable[[str, Sequence[Row], Sequence[float], str, Ends], Iterable[Score]]
NAMES = {"tensorrt": "TensorRT", "ipex": "oneDNN on Xeon"}


def score(folder: Path) -> Iterable[Score]:
    """By model and scenario."""
    yield from held_out([*rows(folder), *card_rows.rows(every=True)], _scores)
    yield from _geforce()


def _geforce() -> Iterable[Score]:
    """GeForce cards by constants of data-centre GPUs, as they are shipped."""
    found: dict[str, list[Run]] = defaultdict(list)
    with GEFORCE.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            found[row["precision"]].append(_asked(row))
    for precision, runs in found.items():
        yield Score(
            what=f"GeForce cards {precision}, TensorRT",
            runs=runs,
            held_out="no row fitted",
            family="GeForce cards, TensorRT",
        )


def _asked(row: dict[str, str]) -> Run:
    sizes = {"seq": int(row["seq"])} if row["seq"] else {}
    found = gambrel.analyze(
        row["model"],
        row["device"],
        runtime="tensorrt",
        precision=row["precision"],
        batch_size=int(row["batch"]),
        **sizes,
    )
    name = f"{row['model']} {row['device']} {row['precision']} {row['batch']}"
    return Run.of(name, float(row["ms"]) * 1e-3, found)


def held_out(found: Sequence[Row], scores: Scorer) -> Iterable[Score]:
    """Every class that has rows, without one model after another and one device after another."""
    stored = {(c.runtime, c.match): c for c in packaged().engines}
    for one in fit_engines.CLASSES:
        own, c = fit_engines.rows_of(one, found), stored[one.runtime, one.match]
        if not own:
            continue
        far = partial(_same, (c.far_low, c.far_high))
        by_model = fit_engines.left_out(one, own, lambda r: r.group)
        by_device = fit_engines.left_out(one, own, lambda r: r.device)
        for how, times, ends in (
            ("leave one model out", by_model, c.range_of),
            ("leave one device out", by_device, far),
        ):
            yield from scores(one.runtime, own, times, how, ends)


def _same(ends: tuple[float, float], _: str) -> tuple[float, float]:
    return ends


def _scores(
    name: str, own: Sequence[Row], times: Sequence[float], how: str, ends: Ends
) -> Iterable[Score]:
    groups: dict[tuple[str, str], list[tuple[Row, float]]] = defaultdict(list)
    for row, seconds in zip(own, times, strict=True):
        groups[_words(row)].append((row, seconds))
    for (what, family), chosen in groups.items():
        yield Score(
            what=f"{what}, {NAMES[name]}",
            runs=[run(r, t, ends) for r, t in chosen],
            held_out=how,
            family=f"{family}, {NAMES[name]}",
            target=TARGETS.get(chosen[0][0].group, "20 %") if name == "tensorrt" else "",
        )


def _words(row: Row) -> tuple[str, str]:
    """The line of a table and that of the summary."""
    if row.version in card_rows.SOURCES:
        family = card_rows.SOURCES[row.version]
        return f"{family} {row.precision}", family
    held = " v3.0, with suppression" if not fit_engines.is_fitted(row) else ""
    return f"MLPerf {row.model} {row.scenario}{held}", f"MLPerf {_name(row.model)}"


def _name(model: str) -> str:
    """BERT's two accuracies are one line of the summary."""
    return model.removesuffix(".9").removesuffix("-99")


def run(row: Row, expected: float, ends: Ends) -> Run:
    """A row beside its times."""
    sol, roofline, proven = _limits(row)
    low, high = ends(row.precision)
    return Run(
        name=" ".join(map(str, (row.model, row.scenario, row.device, row.version, row.batches))),
        measured=row.seconds,
        expected=expected,
        low=expected * low,
        high=expected * high,
        roofline=roofline,
        sol=sol,
        proven=proven,
    )


@cache
def _limits(row: Row) -> tuple[float | None, float | None, bool]:
    """Speed of light and roofline of a sample (Offline) or a query, and what the first proves."""
    settings = Settings(precision=row.precision, runtime=row.runtime)
    machine = Machine(load(row.device), settings)
    sols, rooflines, proven = [], [], True
    for batch in row.batches:
        found = answered(bench(row.model, batch, row.sizes), machine, settings)
        proven &= found.proved
        samples = batch if row.scenario == "Offline" else 1
        if found.sol_time_s is not None:
            sols.append(found.sol_time_s / samples)
        if found.held.time_s is not None:
            rooflines.append(found.held.time_s / samples)
    return min(sols, default=None), min(rooflines, default=None), proven
