"""Intel's own runs under OpenVINO: processors, Arc and Flex cards, integrated GPUs.

Every row is predicted twice: by constants that saw no row of its model, and no row of its device.
Decoding steps serve no constants, nor do networks on GPUs under earlier releases.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.accuracy import Run, Score
from benchmarks.accuracy.mlperf import Ends, Row, held_out, run

import gambrel
from gambrel.analysis.estimate import packaged
from gambrel.device.catalog import load

import fit_engines  # isort: skip  # mlperf puts scripts/ on the path
import openvino_rows  # isort: skip

STEPS = "OpenVINO, decoding of Llama 2 7B"
TOKENS = "OpenVINO GenAI on Arc Graphics of the 155H and the 140V of the 288V, decoding"
OLDER = "OpenVINO on Intel GPUs, releases of 2023 to early 2025"
#: Tokens in the cache; 1,024 would add 4 % in fp16 and 14 % in int4.
CONTEXT = 64
#: Text in an architecture or a category → line of the summary; the first counts.
FAMILIES = {
    "AMX": "OpenVINO on Xeons with AMX",
    "Xe-HPG": "OpenVINO on Arc A and Flex",
    "Xe2-HPG": "OpenVINO on Arc B",
    "Xe2-L": "OpenVINO on GPUs of Core Ultra 200V and 300",
    "Xe3-L": "OpenVINO on GPUs of Core Ultra 200V and 300",
    "Xe-L": "OpenVINO on integrated GPUs",
    "cpu": "OpenVINO on processors without AMX",
}


def score(folder: Path) -> Iterable[Score]:
    """By family, number format and kind of run; the folder is not read."""
    del folder
    yield from held_out(openvino_rows.rows(), _scores)
    for what, table, runtime in (
        (STEPS, "decode.csv", "openvino"),
        (TOKENS, "tokens.csv", "openvino-genai"),
    ):
        runs = list(_decoding(table, runtime))
        yield Score(what=what, runs=runs, held_out="no row fitted", family=what)
    yield Score(what=OLDER, runs=list(_older()), held_out="no row fitted", family=OLDER)


def _older() -> Iterable[Run]:
    """By the constants as they are stored, which are of later releases."""
    found = openvino_rows.older()
    stored = {(c.runtime, c.match): c for c in packaged().engines}
    for one in fit_engines.CLASSES:
        own, c = fit_engines.rows_of(one, found), stored[one.runtime, one.match]
        times = fit_engines.Runs(own, one).predicted(c) if own else ()
        yield from (run(r, float(t), c.range_of) for r, t in zip(own, times, strict=True))


def _decoding(table: str, runtime: str) -> Iterable[Run]:
    """The second token after a short prompt, whose length is not published."""
    with (openvino_rows.TABLE.parent / table).open(newline="") as file:
        for r in csv.DictReader(file):
            found = gambrel.analyze(
                r["model"], r["device"], phase="decode", context=CONTEXT,
                precision=r["precision"], runtime=runtime,
            )  # fmt: skip
            total = found.expected_time_s
            yield Run(
                name=" ".join((r["model"], r["device"], r["precision"])),
                measured=float(r["ms"]) * 1e-3,
                expected=total and total.value,
                low=total and total.low,
                high=total and total.high,
                roofline=found.roofline_time_s,
                sol=found.sol_time_s,
            )


def _scores(
    name: str, own: Sequence[Row], times: Sequence[float], how: str, ends: Ends
) -> Iterable[Score]:
    del name
    groups: dict[tuple[str, str], list[tuple[Row, float]]] = defaultdict(list)
    for row, seconds in zip(own, times, strict=True):
        groups[_family(row), _kind(row)].append((row, seconds))
    for (family, kind), chosen in sorted(groups.items()):
        yield Score(
            what=f"{family}, {kind}",
            runs=[run(r, t, ends) for r, t in chosen],
            held_out=how,
            family=family,
            target="25 %",
        )


def _family(row: Row) -> str:
    device = load(row.device)
    called = f"{device.architecture} {device.category}"
    return next(words for text, words in FAMILIES.items() if text in called)


def _kind(row: Row) -> str:
    what = "throughput" if row.scenario == "Offline" else "latency"
    return f"{what} in {row.precision}"
