"""A survey as text for the terminal, and beside the figures of a datasheet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gambrel.device.model import Device
from gambrel.measure.records import Measurement, Survey
from gambrel.units import format_capacity, format_number, format_percent, format_si

#: Below this share of the other device's figure a ceiling is flagged as low.
LOW = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
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


def compare(measured: Device, published: Device) -> tuple[Row, ...]:
    """Sets the ceilings of two devices side by side; one that only one of them has stays in."""
    engines = dict.fromkeys(
        (c.engine, c.dtype) for d in (measured, published) for c in d.ceilings if not c.accumulate
    )
    levels = dict.fromkeys(m.name for d in (measured, published) for m in d.memory)
    rows = []
    for engine, dtype in engines:
        ours, theirs = measured.ceiling(engine, dtype), published.ceiling(engine, dtype)
        rows.append(
            Row(
                ceiling=f"{engine} {dtype}",
                unit="FLOP/s",
                measured=ours.flop_per_s if ours else None,
                published=theirs.flop_per_s if theirs else None,
            )
        )
    for name in levels:
        near, far = measured.level(name), published.level(name)
        row = Row(
            ceiling=name,
            unit="B/s",
            measured=near.byte_per_s if near else None,
            published=far.byte_per_s if far else None,
        )
        if row.measured is not None or row.published is not None:
            rows.append(row)
    return tuple(rows)


def render_comparison(rows: Sequence[Row], other: str) -> str:
    """The rows as a table, low ones flagged."""
    table = [("ceiling", "measured", other, "ratio", "")]
    return _columns([*table, *map(_compared, rows)])


def _compared(row: Row) -> tuple[str, ...]:
    return (
        row.ceiling,
        format_si(row.measured, row.unit, 3),
        format_si(row.published, row.unit, 3),
        format_percent(row.ratio),
        "low" if row.low else "",
    )


_HEAD = ("", "mix", "threads", "rate", "median", "spread", "clock", "per cycle", "data")


def render(survey: Survey) -> str:
    """Every figure of a survey, grouped by what it is of, with what casts doubt on it."""
    lines = [f"{survey.name}, measured {survey.date}", ""]
    table: list[tuple[str, ...]] = [_HEAD]
    table += [_row(m) for m in sorted(survey.measurements, key=_order)]
    lines += [_columns(table), ""]
    lines += _circumstances(survey)
    lines += [f"not measured: {text}." for text in survey.unknown]
    lines += [f"note: {text}" for text in _remarks(survey)]
    return "\n".join(lines)


def page(survey: Survey, device: Device, precision: str, rows: Sequence[Row], other: str) -> str:
    """A survey as a page that opens offline: the roofs, every figure, the doubts.

    Args:
        survey: What was measured.
        device: The device that it describes.
        precision: Number format whose roof is drawn strong.
        rows: Beside another device's figures; empty without one.
        other: Id of that device.
    """
    from gambrel.measure.roofs import chart_of, render_image
    from gambrel.report import plain_page as html

    title = f"{survey.name}, measured {survey.date}"
    svg = render_image(chart_of(device, precision, title), "svg").decode()
    compared = [_compared(row) for row in rows]
    return html.page(
        title,
        [
            html.picture(svg, "Measured roofs, by engine, format and memory level"),
            html.table(
                "Figures", ("of", *_HEAD[1:]), map(_row, sorted(survey.measurements, key=_order))
            ),
            html.table("Beside a datasheet", ("ceiling", "measured", other, "ratio", ""), compared),
            *map(html.paragraph, _circumstances(survey)),
            html.listed("Not measured", survey.unknown),
            html.listed("Notes", _remarks(survey)),
        ],
    )


def _row(m: Measurement) -> tuple[str, ...]:
    return (
        f"{m.resource} {m.dtype}".strip(),
        m.mix,
        str(m.threads) if m.threads else "",
        format_si(m.value, m.unit, 4),
        format_si(m.median, m.unit, 3),
        f"{m.spread:.0%}" if m.rounds > 1 else "",
        format_si(m.clock_hz, "Hz", 3) if m.clock_hz else "",
        format_number(m.per_cycle, 3) if m.per_cycle else "",
        format_capacity(m.working_set_bytes, 3) if m.working_set_bytes else "",
    )


_ORDER = ("vector", "matrix", "library", "L1", "L2", "L3", "L4", "DRAM", "host link")


def _order(m: Measurement) -> tuple[int, str, int]:
    place = _ORDER.index(m.resource) if m.resource in _ORDER else len(_ORDER)
    return place, "" if m.unit == "B/s" else m.dtype, m.threads


def _circumstances(survey: Survey) -> list[str]:
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


def _remarks(survey: Survey) -> list[str]:
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


def _columns(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if i < 2 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
