"""Language models on NPUs: each model predicted without its rows, each chip from the others.

Rows of benchmarks/data/npu_llm; the measurements of other people's boards and of older engines are
scored apart: they were not fitted.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from benchmarks.accuracy import Run, Score

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

import fit_language
from gambrel.analysis.estimate import packaged
from gambrel.analysis.estimate.language_constants import LanguageRates
from gambrel.analysis.settings import Settings
from gambrel.analysis.workbench import Machine, answered
from gambrel.device.catalog import load
from language_rows import Row, asked
from language_rows import rows as all_rows

PHASES = {False: "decoding", True: "prompts"}


def score(_: Path) -> Iterable[Score]:
    """The rows come with the project: no folder is read."""
    shared = {c.match: c for c in packaged().language if c.memory}
    known = {c.match[0]: c for c in packaged().language if not c.memory}
    for runtime, device in fit_language.CHIPS:
        own = known[fit_language.PATTERNS.get(device, device)]
        times = fit_language.left_out(runtime, device)
        for use in ("fit", "check"):
            rows = [r for r in all_rows() if r.device == device and r.use == use]
            yield from _scores(f"{runtime} {device}", rows, times, own, use)
    for runtime, patterns in fit_language.CLASSES.items():
        pairs = list(fit_language.new_chips(runtime))
        times = {id(row): t for row, t in pairs}
        rows = [row for row, _ in pairs]
        yield from _scores(f"{runtime}, a new chip", rows, times, shared[patterns], "chip")


def _scores(
    what: str,
    rows: Sequence[Row],
    times: dict[int, float],
    known: LanguageRates,
    use: str,
) -> Iterable[Score]:
    held_out = {
        "fit": "leave one model out",
        "check": "no row fitted",
        "chip": "leave one chip out",
    }[use]
    where = {"fit": "", "check": ", other boards and releases", "chip": ", a new chip"}[use]
    for prompt, phase in PHASES.items():
        own = [r for r in rows if r.prompt is prompt]
        if own:
            yield Score(
                what=f"{what}, {phase}{where if use == 'check' else ''}",
                runs=[_run(r, times[id(r)], known) for r in own],
                held_out=held_out,
                family=f"language models on NPUs, {phase}{where}",
            )


def _run(row: Row, expected: float, known: LanguageRates) -> Run:
    span = known.prompts if row.prompt else known.decode
    assert span is not None  # of a phase with rows
    high = span.high * (known.beyond if row.prompt and row.tokens > known.tokens else 1.0)
    roofline, sol = _limits(row, known.runtime)
    return Run(
        name=f"{row.device} {row.model} {row.size}={row.tokens}",
        measured=row.seconds,
        expected=expected,
        low=max(sol or 0.0, expected * span.low),
        high=expected * high,
        roofline=roofline,
        sol=sol,
    )


@cache
def _limits_of(
    model: str, precision: str, size: str, tokens: int, device: str, runtime: str
) -> tuple[float | None, float | None]:
    bench = asked(model, precision, size, tokens)
    settings = Settings(sizes=bench.sizes, runtime=runtime)
    found = answered(bench, Machine(load(device), settings), settings)
    return found.held.time_s, found.sol_time_s


def _limits(row: Row, runtime: str) -> tuple[float | None, float | None]:
    """Roofline and speed of light of a row; None of a device without a known bandwidth."""
    if not load(row.device).memory or not load(row.device).memory[0].byte_per_s:
        return None, None
    return _limits_of(row.model, row.precision, row.size, row.tokens, row.device, runtime)
