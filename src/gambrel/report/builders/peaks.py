"""Measured ceilings of a machine: every figure, with what casts doubt on it, beside a datasheet."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gambrel.device.model import Device
from gambrel.dtypes import parse_dtype
from gambrel.report.answers import Peaks
from gambrel.report.blocks import (
    DataTable,
    Document,
    KeyFigure,
    Notes,
    capacity,
    col,
    section,
    sections,
    share,
    table_of,
)
from gambrel.report.options import Options
from gambrel.units import format_number, format_si

if TYPE_CHECKING:
    from gambrel.measure.records import Measurement, Survey

#: Below this share of the other device's figure a ceiling is flagged as low.
LOW: Final = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class CeilingRow:
    """One ceiling, measured and published.

    Attributes:
        ceiling: Engine and format, or memory level.
        unit: Of both.
        measured: None where it was not measured.
        published: None where the other device has no such figure.
    """

    ceiling: str
    unit: str
    measured: float | None
    published: float | None

    @property
    def ratio(self) -> float | None:
        """Measured / published; None where one is unknown."""
        if self.measured is None or self.published is None:
            return None
        return self.measured / self.published

    @property
    def low(self) -> bool:
        """Whether the measured figure is far below the published one."""
        return self.ratio is not None and self.ratio < LOW


def compare(measured: Device, published: Device) -> tuple[CeilingRow, ...]:
    """Sets the ceilings of two devices side by side; one that only one of them has stays in."""
    engines = dict.fromkeys(
        (c.engine, c.dtype) for d in (measured, published) for c in d.ceilings if not c.accumulate
    )
    levels = dict.fromkeys(m.name for d in (measured, published) for m in d.memory)
    rows = []
    for engine, dtype in engines:
        ours, theirs = measured.ceiling(engine, dtype), published.ceiling(engine, dtype)
        rows.append(
            CeilingRow(
                ceiling=f"{engine} {dtype}",
                unit="FLOP/s",
                measured=ours.flop_per_s if ours else None,
                published=theirs.flop_per_s if theirs else None,
            )
        )
    for name in levels:
        near, far = measured.level(name), published.level(name)
        row = CeilingRow(
            ceiling=name,
            unit="B/s",
            measured=near.byte_per_s if near else None,
            published=far.byte_per_s if far else None,
        )
        if row.measured is not None or row.published is not None:
            rows.append(row)
    return tuple(rows)


def compared_rows(record: Peaks) -> tuple[CeilingRow, ...]:
    """The measured ceilings beside those of the other device; none without one."""
    return () if record.other is None else compare(record.peaks.to_device(), record.other)


def document(record: Peaks, _options: Options) -> Document:
    """The two roofs lead, then every figure."""
    survey, peaks = record.peaks.survey, record.peaks
    return Document(
        title=title(survey),
        answer=(
            f"Compute: {format_si(peaks.peak_flops, 'FLOP/s')} in {parse_dtype(peaks.dtype)}",
            f"Memory: {format_si(peaks.peak_bandwidth, 'B/s')}; ridge point "
            f"{format_number(peaks.ridge_point)} FLOP/byte",
        ),
        sections=sections(
            section(_compared(record)),
            section(figures_table(survey)),
            section(loops_table(survey), folded="how each loop over memory was written"),
            section(Notes(items=tuple(circumstances(survey)))),
            section(Notes(heading="Not measured", items=survey.unknown)),
            section(Notes(heading="Notes", items=tuple(remarks(survey)))),
        ),
        source=f"measured on {survey.name}, {survey.date}",
        figures=tuple(_key_figures(record)),
    )


def _key_figures(record: Peaks) -> Iterator[KeyFigure]:
    peaks, survey = record.peaks, record.peaks.survey
    yield KeyFigure(
        label="compute",
        text=format_si(peaks.peak_flops, "FLOP/s"),
        note=parse_dtype(peaks.dtype),
        formula="operations / time of the fastest kernel that was found",
        source=_ROUNDS if survey.device == "cpu" else _BEST_ROUND,
    )
    yield KeyFigure(
        label="memory",
        text=format_si(peaks.peak_bandwidth, "B/s"),
        note="bytes read and written",
        formula="bytes / time of a stream larger than every cache",
    )
    yield KeyFigure(
        label="ridge point",
        text=f"{format_number(peaks.ridge_point)} FLOP/byte",
        key="ridge_point",
    )
    widest = max((m.spread for m in survey.measurements if m.rounds > 1), default=None)
    if widest is not None:
        yield KeyFigure(
            label="widest spread",
            text=f"{widest:.0%}",
            note="between rounds of one figure",
            formula="(largest - smallest round) / median",
        )
    if survey.load is not None:
        yield KeyFigure(
            label="load",
            text=f"{survey.load:.1f}",
            note="of the machine before",
            formula="processes that were waiting for a core, on average of a minute",
        )


def content(record: Peaks, _options: Options | None = None) -> dict[str, Any]:
    """The peaks, every measurement, and the device that they make."""
    peaks = record.peaks
    found = {n: getattr(peaks, n) for n in peaks.__struct_fields__ if n != "survey"}
    found |= {"survey": peaks.survey, "device_record": peaks.to_device()}
    if record.other is not None:
        found["comparison"] = [_plain(row) for row in compared_rows(record)]
    return found


def _plain(row: CeilingRow) -> dict[str, Any]:
    return {
        "ceiling": row.ceiling,
        "unit": row.unit,
        "measured": row.measured,
        "published": row.published,
        "ratio": row.ratio,
        "low": row.low,
    }


def title(survey: Survey) -> str:
    """Name and date."""
    return f"{survey.name}, measured {survey.date}"


def figures_table(survey: Survey) -> DataTable:
    """One row a measurement."""
    return table_of(
        sorted(survey.measurements, key=_order),
        col("of", lambda m: f"{m.resource} {m.dtype}".strip()),
        col("mix", "mix", priority=3),
        col("threads", "threads", lambda v: str(v) if v else "", 1),
        col("rate", lambda m: format_si(m.value, m.unit, 4), align="right"),
        col("median", _median, None, 4, align="right"),
        col("spread", lambda m: f"{m.spread:.0%}" if m.rounds > 1 else "", None, 2, align="right"),
        col("clock", "clock_hz", lambda v: format_si(v, "Hz", 3) if v else "", 5),
        col("per cycle", "per_cycle", lambda v: format_number(v, 3) if v else "", 6),
        col("data", "working_set_bytes", lambda v: capacity(v) if v else "", 7),
        all=True,
    )


def loops_table(survey: Survey) -> DataTable:
    """How each loop over memory was written, and out of how many ways."""
    return table_of(
        sorted((m for m in survey.measurements if m.variant), key=_order),
        col("loop", lambda m: f"{m.resource} {m.mix}"),
        col("threads", "threads"),
        col("written with", "variant"),
        col("variants tried", lambda m: str(len(m.tried)) if m.tried else "none"),
        heading="Loops over memory",
        note="the variant that was fastest in a short search before the rounds, which compares "
        "variants in turn; the figures are measured afterwards.",
        all=True,
    )


def _median(m: Measurement) -> str:
    return format_si(None if math.isnan(m.median) else m.median, m.unit, 3)


def _compared(record: Peaks) -> DataTable | None:
    if record.other is None:
        return None
    return table_of(
        compared_rows(record),
        col("ceiling", "ceiling"),
        col("measured", lambda r: format_si(r.measured, r.unit, 3), align="right"),
        col(record.other.id, lambda r: format_si(r.published, r.unit, 3), align="right"),
        col("ratio", "ratio", share),
        col("", lambda r: "low" if r.low else "", align="right"),
        heading="Beside a datasheet",
        all=True,
    )


def rows(record: Peaks) -> DataTable:
    """One row a measurement, in base units."""
    found = sorted(record.peaks.survey.measurements, key=_order)
    names = ("resource", "mix", "dtype", "threads", "value", "unit", "median", "spread", "clock_hz")
    return table_of(found, *(col(name, name, str) for name in names))


_ORDER = ("vector", "matrix", "library", "L1", "L2", "L3", "L4", "DRAM", "host link")


def _order(m: Measurement) -> tuple[int, str, int]:
    place = _ORDER.index(m.resource) if m.resource in _ORDER else len(_ORDER)
    return place, "" if m.unit == "B/s" else m.dtype, m.threads


def circumstances(survey: Survey) -> list[str]:
    """What the machine did meanwhile."""
    parts = []
    if survey.load is not None:
        parts.append(f"load {survey.load:.1f}")
    if survey.stolen is not None:
        parts.append(f"{survey.stolen:.1%} of the time stolen by the hypervisor")
    if survey.huge_page_share is not None:
        parts.append(f"{survey.huge_page_share:.0%} of the memory on huge pages")
    if survey.one_way_s is not None:
        parts.append(f"{format_si(survey.one_way_s, 's', 3)} from core to core")
    versions = ", ".join(f"{name} {value}" for name, value in survey.versions.items())
    return [*([", ".join(parts) + "."] if parts else []), f"versions: {versions}."]


_ROUNDS = (
    "rates are the mean over the faster half of the rounds, in each the upper quantile (95%) of "
    "short slices; spread is how far the rounds are apart, without the highest and lowest tenth. "
    "The clock of most processors changes by the second with what else the chip does, and so do "
    "rates of arithmetic and of the inner caches; per cycle is steadier."
)
_BEST_ROUND = (
    "rates are the upper quantile (95%) of many short slices, the best of the rounds; spread is "
    "how far the rounds differ."
)


def _named(m: Measurement) -> str:
    """The format where a note holds for that one alone: each has a size that suits it best."""
    return m.dtype if m.resource == "library" else ""


def remarks(survey: Survey) -> list[str]:
    """How to read the figures, and what casts doubt on them."""
    said = [
        f"{' '.join(filter(None, (m.resource, _named(m), m.mix)))}: {m.note}."
        for m in survey.measurements
        if m.note
    ]
    return [
        _ROUNDS if survey.device == "cpu" else _BEST_ROUND,
        "bytes are those that the program reads and writes.",
        *survey.notes,
        *dict.fromkeys(said),
    ]
