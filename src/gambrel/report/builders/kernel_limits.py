"""The limits of a piece of work on a device."""

from __future__ import annotations

from collections.abc import Iterator

from gambrel.advise.judge.records import KernelLimits
from gambrel.report.blocks import (
    Document,
    FactList,
    KeyFigure,
    Notes,
    section,
    sections,
)
from gambrel.report.options import Options
from gambrel.report.terms import confidence_text
from gambrel.units import format_si


def document(found: KernelLimits, _options: Options) -> Document:
    """Speed of light, what sets it, the expected library kernel."""
    bound = found.bound.value if found.bound else "unknown"
    return Document(
        title=f"{found.reference} on {found.hardware}, {found.precision}",
        answer=(
            f"Limit: {format_si(found.cold_time_s, 's')} with cold caches, "
            f"{format_si(found.sol_time_s, 's')} where data stayed on chip; {bound} sets it",
            f"Library: {library_text(found)}",
        ),
        sections=sections(
            section(FactList(items=facts(found))),
            section(Notes(heading="Notes", items=found.notes), folded="notes"),
        ),
        source=f"{found.ceilings} ceilings of {found.hardware}",
        figures=(
            *limit_figures(found),
            KeyFigure(
                label="work",
                text=_work(found).partition(",")[0],
                source=found.work_source,
                key="flops",
            ),
            KeyFigure(
                label="traffic",
                text=format_si(found.traffic_bytes, "B"),
                note=found.traffic_source,
                formula="every input read once, every output written once",
            ),
        ),
    )


def limit_figures(found: KernelLimits) -> Iterator[KeyFigure]:
    """The speed of light, and what the best known library kernel takes."""
    verdict = f", {found.bound.value}-bound" if found.bound else ""
    yield KeyFigure(
        label="speed of light",
        text=format_si(found.sol_time_s, "s"),
        note=f"with cold caches {format_si(found.cold_time_s, 's')}{verdict}",
        key="sol_time_s",
        source=f"{found.ceilings} ceilings",
    )
    expected = found.library_expected
    yield KeyFigure(
        label="library kernel",
        text="unknown" if expected is None else format_si(expected.value, "s"),
        note=found.library,
        key="expected_time_s",
        confidence=confidence_text(expected),
    )


def facts(found: KernelLimits) -> tuple[tuple[str, str], ...]:
    """Compulsory work and the times that it allows."""
    measured = found.measured_ceiling_time_s
    return (
        ("Work", _work(found)),
        ("Traffic", f"{format_si(found.traffic_bytes, 'B')}, {found.traffic_source}"),
        ("Speed of light", f"{format_si(found.sol_time_s, 's')}, {found.ceilings} ceilings"),
        ("Cold caches", format_si(found.cold_time_s, "s")),
        *([("Measured ceilings", format_si(measured, "s"))] if measured is not None else []),
        *(
            ("I/O lower bound", f"{format_si(b.traffic_bytes, 'B')}: {b.formula}; {b.source}")
            for b in found.io_bounds
            if b.traffic_bytes > (found.traffic_bytes or 0)
        ),
        *(("Not certain", text) for text in found.caveats),
        *([("Unknown", ", ".join(found.unknown))] if found.unknown else []),
    )


def _work(found: KernelLimits) -> str:
    if found.matrix_flops is None:
        return "unknown"
    work = [format_si(found.matrix_flops, "FLOP")] if found.matrix_flops else []
    if found.vector_flops:
        work.append(f"{format_si(found.vector_flops, 'FLOP')} element-wise")
    return ", ".join((*work, found.work_source)) if work else "none"


def library_text(found: KernelLimits) -> str:
    """What the best known library kernel is expected to take."""
    expected = found.library_expected
    if expected is None:
        return "no expected time is known here"
    return f"{found.library}, {expected}"
