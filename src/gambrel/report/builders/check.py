"""A check: the verdict, each requirement, and what would make it pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from gambrel.advise.check import Check, Fix
from gambrel.advise.figures import Figure
from gambrel.advise.limits import LIMITED, METRICS, format_metric
from gambrel.advise.verdict import Constraint, Verdict
from gambrel.analysis.commandline import command_of, sizes_given
from gambrel.report.blocks import (
    DataTable,
    Document,
    FactList,
    KeyFigure,
    Notes,
    Section,
    col,
    count,
    rate_text,
    seconds,
    section,
    sections,
    table_of,
)
from gambrel.report.options import Options
from gambrel.report.text import clean, cut

STYLES: Final = {
    Verdict.PASS: "total",
    Verdict.MARGINAL: "warning",
    Verdict.UNKNOWN: "warning",
    Verdict.FAIL: "fail",
}
#: Requirements that have figures at the top.
_SHOWN: Final = 2
#: What a missed limit is, where it is not too much of something.
_BEYOND: Final = {"latency": "too slow", "throughput": "too slow", "efficiency": "too little"}
_TITLES: Final = {
    Verdict.PASS: "What would make it pass",
    Verdict.MARGINAL: "What would make it marginal",
    Verdict.UNKNOWN: "What would leave it open",
    Verdict.FAIL: "What comes closest",
}
#: Proof of a FAIL → what it means.
_PROOFS: Final = {
    "sol": "FAIL, proved; the limit is beyond the speed of light",
    "expected": "FAIL, expected; the limit is outside the expected range",
}


def document(found: Check, _options: Options) -> Document:
    """The verdict leads."""
    chosen = ", ".join([found.precision, *(f"{n} {v}" for n, v in found.sizes.items())])
    said = _PROOFS.get(getattr(found, "proof", None) or "", found.verdict.value)
    return Document(
        title=f"{found.model} on {found.hardware}, {chosen}",
        answer=(said, *(f"{c.metric.capitalize()}: {_line(c)}" for c in found.constraints)),
        style=STYLES[found.verdict],
        sections=sections(
            section(_constraints(found.constraints)),
            section(FactList(items=tuple((c.metric, f"{c.reason}.") for c in found.constraints))),
            section(_tried(found)),
            _fixes(found),
            section(Notes(heading="Notes", items=found.notes)),
        ),
        source="the expected figures and their ranges",
        figures=tuple(_key_figures(found)),
    )


def _key_figures(found: Check) -> Iterator[KeyFigure]:
    """The verdict, then each requirement with its headroom."""
    proof = {"sol": "proved by the speed of light", "expected": "by the expected range"}
    yield KeyFigure(
        label="verdict",
        text=found.verdict.value,
        note=proof.get(found.proof or "", ""),
        formula="PASS: the whole range meets every limit; MARGINAL: a limit lies inside it; "
        "FAIL: outside it; proved where the speed of light misses it",
        source=found.reason,
        confidence=found.confidence,
    )
    for c in found.constraints[:_SHOWN]:
        yield KeyFigure(
            label=f"{c.metric} expected",
            text=value_text(c.figure),
            note=range_text(c.figure),
            formula=METRICS[c.figure.metric].about,  # that of a capacity is memory
            source=c.reason,
            confidence=c.confidence,
        )
        yield KeyFigure(
            label=limit_text(c),
            text="unknown" if c.headroom is None else _spare(c),
            formula="(limit - expected) / limit; for a least value (expected - limit) / expected",
        )


def _tried(found: Check) -> DataTable | None:
    """The runtimes and batches that were tried, where the user chose none."""
    tried = getattr(found, "tried", ())
    if len(tried) < 2:
        return None
    return table_of(
        tried,
        col("runtime", "runtime"),
        col("batch", "batch_size", count),
        col("verdict", "verdict.value"),
        col("expected", "expected_time_s", seconds),
        heading="Tried",
    )


def _line(c: Constraint) -> str:
    spare = "" if c.headroom is None else f", {_spare(c)}"
    between = range_text(c.figure)
    around = f" ({between})" if between and between != "exact" else ""
    limit = limit_text(c).removeprefix(f"{c.metric} ")
    return f"{value_text(c.figure)}{around} against {limit}{spare}"


def _spare(c: Constraint) -> str:
    headroom = c.headroom or 0.0
    if headroom < -1:
        return f"{rate_text(1 - headroom)} times {_BEYOND.get(c.metric, 'too much')}"
    return f"{headroom:.0%} to spare" if headroom >= 0 else f"{-headroom:.0%} beyond it"


def _constraints(rows: Sequence[Constraint]) -> DataTable:
    return table_of(
        rows,
        col("limit", limit_text, key="metric"),
        col("expected", lambda r: value_text(r.figure)),
        col("range", lambda r: range_text(r.figure), priority=2),
        col("headroom", "headroom", _headroom, 1),
        col("verdict", "verdict.value", styles=tuple(STYLES[r.verdict] for r in rows)),
        col("confidence", lambda r: r.confidence or "–", priority=3),
        all=True,
    )


def limit_text(row: Constraint) -> str:
    """``"latency ≤ 10 ms"``."""
    if row.metric == "capacity":
        return f"device memory {format_metric('memory', row.limit)}"
    sign = "≥" if METRICS[row.metric].more_is_better else "≤"
    return f"{row.metric} {sign} {format_metric(row.metric, row.limit)}"


def value_text(figure: Figure) -> str:
    """The expected value, ≈ of low confidence; else what it lies between, at most or at least."""
    name, more = figure.metric, METRICS[figure.metric].more_is_better
    if figure.value is not None:
        doubt = "≈ " if figure.confidence == "low" else ""
        return f"{doubt}{format_metric(name, figure.value)}"
    floor, ceiling = (figure.worst, figure.high) if more else (figure.low, figure.worst)
    if floor is not None and ceiling is not None:
        return f"{format_metric(name, floor, 3)} to {format_metric(name, ceiling, 3)}"
    if floor is not None:
        return f"≥ {format_metric(name, floor)}"
    return "unknown" if ceiling is None else f"≤ {format_metric(name, ceiling)}"


def range_text(figure: Figure) -> str:
    """``"0.6 ms to 1.2 ms"``; empty where the value is exact or unknown."""
    if figure.value is None or figure.low is None or figure.high is None:
        return ""
    if figure.low == figure.high:
        return "exact"
    low, high = (format_metric(figure.metric, v, 3) for v in (figure.low, figure.high))
    return f"{low} to {high}"


def _headroom(value: float | None) -> str:
    """What is left of the limit; beyond twice the limit a factor, where percents say little."""
    if value is None or value >= -1:
        return "unknown" if value is None else f"{value:.0%}"
    return f"{rate_text(1 - value)}× beyond"


def _fixes(found: Check) -> Section:
    if found.verdict.meets or found.verdict is Verdict.UNKNOWN:
        return section()
    other = f"Other devices: {_selection(found)}"
    if not found.fixes:
        told = ("No change of the catalogue comes closer.", other)
        return section(Notes(heading="What would make it pass", items=told))
    best = min(found.fixes, key=lambda fix: list(Verdict).index(fix.verdict))
    # Beside what meets the limits, what still fails is no answer.
    shown = [fix for fix in found.fixes if fix.verdict is not Verdict.FAIL] or found.fixes
    fixes = table_of(
        shown,
        col("change", lambda f: " + ".join(f.changes)),
        col("verdict", "verdict.value"),
        col("after", _after, priority=1, minimum=20, shorten=cut),
        col("about", "about", priority=4, minimum=30, shorten=cut),
        heading=_TITLES[best.verdict],
        all=True,
    )
    return section(fixes, Notes(items=(f"See the difference: {_command(found)}", other)))


def _command(found: Check) -> str:
    """The what-if that shows the first fix, in the same precision, runtime and sizes."""
    more = {"precision": found.precision, "runtime": found.runtime or None}
    custom = "peak" in found.asked and "hardware" not in found.asked
    hardware = {} if custom else {"hardware": found.hardware}
    given = found.asked | hardware | _sized(found) | more | {"change": found.fixes[0].changes}
    return command_of("what-if", given)


def _selection(found: Check) -> str:
    """The command that looks for devices on which the same limits are met."""
    limits = {c.metric: float(f"{c.limit:.6g}") for c in found.constraints if c.metric in LIMITED}
    asked = {n: v for n, v in found.asked.items() if n not in ("hardware", "peak", "bandwidth")}
    return command_of("select", asked | _sized(found) | limits)


def _sized(found: Check) -> dict[str, Any]:
    """Model and sizes, as a question takes them."""
    model = found.asked.get("model", clean(found.model))
    own = {"sparsity": found.sparsity, "engine": found.engine or None}
    return {"model": model, "sizes": None} | own | sizes_given(found.sizes)


def _after(fix: Fix) -> str:
    return ", ".join(f"{c.metric} {value_text(c.figure)}" for c in fix.constraints)
