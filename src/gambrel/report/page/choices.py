"""The pages of comparisons and selections: a bar with its range a device, unknown ones greyed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final

from msgspec.structs import replace

from gambrel.advise.compare import Comparison, Row
from gambrel.advise.figures import Figure
from gambrel.advise.limits import METRICS
from gambrel.advise.select import Selection
from gambrel.advise.verdict import Verdict
from gambrel.errors import InputError
from gambrel.report import advice_pictures
from gambrel.report.options import Options
from gambrel.report.page.parts import PageParts
from gambrel.report.picture import Bar, Bars, Picture, limit_keys
from gambrel.report.registry import document
from gambrel.report.text import clean, cut
from gambrel.units import format_count

#: Bars of a metric; a comparison over the whole catalog has hundreds of rows.
_MOST: Final = 16
#: Metrics that get bars.
_METRICS: Final = 3
#: Characters of a reason.
_REASON: Final = 100


def comparison(found: Comparison, options: Options) -> PageParts:
    """Bars of the first metrics, then the first two against each other."""
    return _parts(found, document_of=found, options=options, metrics=found.metrics)


def selection(found: Selection, options: Options) -> PageParts:
    """The same of the devices that meet the limits; without any, of those that may or nearly do."""
    limited = [limit.metric for limit in found.limits]
    metrics = tuple(dict.fromkeys((found.sort, *limited)))
    groups = (found.meets,) if found.meets else (found.unknown, found.near)
    rows = [c.row for group in groups for c in group]
    shown = Comparison(metrics=metrics, rows=tuple(rows))
    doubts = {id(c.row): c.verdict.value for c in found.meets if c.verdict is not Verdict.PASS}
    return _parts(shown, document_of=found, options=options, metrics=metrics, doubts=doubts)


def _parts(
    found: Comparison,
    document_of: object,
    options: Options,
    metrics: Sequence[str],
    doubts: Mapping[int, str] = {},
) -> PageParts:
    bars = (_bars(found.rows, m, doubts) for m in metrics[:_METRICS])
    pictures: list[Picture] = [b for b in bars if b]
    # With fewer than two metrics, or no device with both, the bars are all there is to see.
    with suppress(InputError):
        pictures += advice_pictures.comparison(found, options)
    return PageParts(document=document(document_of, options), pictures=tuple(pictures))


def _bars(rows: Sequence[Row], metric: str, doubts: Mapping[int, str]) -> Bars | None:
    """The best first; rows with a doubt stand below those without, and say it."""
    shown = [row for row in rows if metric in row.figures]
    if not shown:
        return None
    more = METRICS[metric].more_is_better
    unit = METRICS[metric].unit
    shown.sort(key=lambda r: (id(r) in doubts, *_order(r.figures[metric], more)))
    left = len(shown) - _MOST
    bars = tuple(
        replace(bar, note=", ".join(filter(None, (bar.note, doubts.get(id(row))))))
        for row, name in _named(shown[:_MOST])
        for bar in (_bar(row, row.figures[metric], name),)
    )
    return Bars(
        title=f"{metric}{f', {unit}' if '/' in unit else ''}",
        about=f"{'More' if more else 'Less'} is better."
        + (f" {format_count(left, 'more row')} in the table." if left > 0 else ""),
        unit="capacity" if unit == "byte" else "" if "/" in unit else unit,
        series=("expected",),
        rows=bars,
        legend=limit_keys(bars),
    )


def _order(figure: Figure, more: bool) -> tuple[bool, float]:
    value = figure.value
    return value is None, (-value if more else value) if value is not None else 0.0


def _named(rows: Sequence[Row]) -> Iterator[tuple[Row, str]]:
    """Rows with what tells them apart from the others of their device."""
    for row in rows:
        own = [_told(other) for other in rows if other.hardware == row.hardware]
        differing = [len(set(values)) > 1 for values in zip(*own, strict=True)]
        parts = [part for part, differs in zip(_told(row), differing, strict=True) if differs]
        yield row, ", ".join((row.hardware, *parts))


def _told(row: Row) -> tuple[str, str, str]:
    """What may tell rows of one device apart, the first cut last."""
    return row.model, row.precision, f"batch {row.sizes.get('batch', 1)}"


def _bar(row: Row, figure: Figure, name: str) -> Bar:
    color = row.bound.value if row.bound else ""
    if row.fits is False:
        return Bar(name=name, values=(None,), missing="does not fit into its memory")
    if figure.value is None and figure.worst is not None:
        word = "at least" if METRICS[figure.metric].more_is_better else "at most"
        return Bar(name=name, values=(figure.worst,), note=word)
    if figure.value is None:
        return Bar(name=name, values=(None,), missing=_missing(figure))
    known = figure.low is not None and figure.high is not None
    ends = (figure.low, figure.high) if known else None
    return Bar(name=name, values=(figure.value,), color=color, ends=ends)  # type: ignore[arg-type]


def _missing(figure: Figure) -> str:
    """Why there is no figure, and the limit where one is known."""
    return cut(clean(figure.reason), _REASON) if figure.reason else "unknown"
