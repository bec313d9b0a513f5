"""A fleet: devices that are not like their peers, then the peers, then every device."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from gambrel.report.blocks import (
    DataTable,
    Document,
    KeyFigure,
    Notes,
    amount,
    col,
    count,
    section,
    sections,
    table_of,
)
from gambrel.report.options import Options
from gambrel.units import format_count, format_figure, format_percent, format_si

if TYPE_CHECKING:
    from gambrel.measure.fleet.records import FleetReport

_SAID: Final = {
    "slow": "slow",
    "clock": "clock wrong",
    "silent": "no figures",
    "board": "board at fault",
    "drift": "slower than before",
}


def document(found: FleetReport, _options: Options) -> Document:
    """The suspects lead."""
    measured = sum(bool(one.figures) for one in found.checkups)
    return Document(
        title=f"{measured:,} of {len(found.checkups):,} devices measured",
        answer=tuple(_answer(found)),
        sections=sections(
            section(_suspects(found)),
            section(_peers(found)),
            section(_boards(found)),
            section(Notes(items=found.warnings, heading="Also")),
            section(rows(found), folded="the figures of every device"),
        ),
        source="what each machine measured of itself",
        figures=tuple(_key_figures(found)),
    )


def _key_figures(found: FleetReport) -> Iterator[KeyFigure]:
    measured = [one for one in found.checkups if one.figures]
    hosts = len({one.host for one in found.checkups})
    yield KeyFigure(
        label="measured",
        text=format_count(len(measured), "device"),
        note=f"of {len(found.checkups):,} on {format_count(hosts, 'host')}",
        formula="devices that gave at least one figure",
    )
    unlike = {(s.worker, s.device) for s in found.suspects}
    yield KeyFigure(
        label="differ",
        text=format_count(len(unlike), "device"),
        formula="devices further from the median of their kind than its scatter explains",
    )
    slow = [s for s in found.suspects if s.lag_share is not None]
    if slow:
        last = max(slow, key=lambda s: s.lag_share or 0.0)
        yield KeyFigure(
            label="slowest",
            text=f"-{format_percent(last.lag_share)}",
            note=f"{last.worker} {last.device}",
            formula="1 - rate / median of its kind",
            source=last.evidence,
            confidence=last.confidence,
        )
    kinds = len({p.sku for p in found.peers})
    yield KeyFigure(
        label="compared",
        text=format_count(kinds, "kind"),
        note="of device",
        formula="kinds with several measured devices",
    )
    if found.peers:
        wide = max(found.peers, key=lambda p: p.mad_share)
        yield KeyFigure(
            label="widest scatter",
            text=format_percent(wide.mad_share),
            note=f"{wide.figure}, {wide.sku}",
            formula="median of |rate - median| / median",
        )


def _answer(found: FleetReport) -> list[str]:
    if not found.suspects:
        alone = max((p.devices for p in found.peers), default=0) < 3
        return ["Too few devices of a kind to compare." if alone else "All devices are alike."]
    names = dict.fromkeys(f"{s.worker} {s.device}" for s in found.suspects)
    listed = ", ".join(list(names)[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
    unlike = format_count(len(names), "device differs", "devices differ")
    return [f"{unlike} from the others of its kind: {listed}."]


def _suspects(found: FleetReport) -> DataTable:
    return table_of(
        found.suspects,
        col("worker", "worker", key=""),
        col("device", "device", key=""),
        col("what", lambda s: _SAID[s.cause]),
        col("confidence", "confidence", priority=3, key=""),
        col("evidence", "evidence", priority=2, key=""),
        all=True,
    )


def _peers(found: FleetReport) -> DataTable:
    return table_of(
        found.peers,
        col("kind", "sku", priority=4, key=""),
        col("figure", "figure", key=""),
        col("devices", "devices", count, 1, key=""),
        col("median", lambda p: format_figure(p.median, p.unit), key=""),
        col("slowest", lambda p: format_figure(p.slowest, p.unit), key=""),
        col("fastest", lambda p: format_figure(p.fastest, p.unit), None, 2, key=""),
        col("scatter", "mad_share", format_percent, 3, key=""),
        heading="Devices of one kind",
    )


def _boards(found: FleetReport) -> DataTable:
    """What the drivers said while the devices were measured."""
    return table_of(
        [(one, one.board) for one in found.checkups if one.board is not None],
        col("worker", lambda r: r[0].worker, key=""),
        col("device", lambda r: r[0].device, key=""),
        col("clock", lambda r: r[1].clock_hz, partial(format_si, unit="Hz"), key=""),
        col("power", lambda r: r[1].power_w, partial(format_si, unit="W"), key=""),
        col("°C", lambda r: r[1].celsius, count, 2, key=""),
        col("lowered by", lambda r: ", ".join(r[1].throttled), None, 2, key=""),
        col("ECC errors", lambda r: r[1].ecc_uncorrected, count, 3, key=""),
        heading="Boards",
    )


def rows(found: FleetReport) -> DataTable:
    """One row for each figure of each device."""
    marked = {(s.worker, s.device): s.cause for s in found.suspects}
    return table_of(
        [(one, f) for one in found.checkups for f in one.figures],
        col("worker", lambda r: r[0].worker, key="worker"),
        col("host", lambda r: r[0].host, priority=4, key="host"),
        col("device", lambda r: r[0].device, key="device"),
        col("kind", lambda r: r[0].sku, priority=5, key="sku"),
        col("figure", lambda r: r[1].name, key="figure"),
        col("value", lambda r: r[1].value, amount, key="value"),
        col("unit", lambda r: r[1].unit, key="unit"),
        col("spread", lambda r: r[1].spread, format_percent, 3, key="spread"),
        col(
            "suspect", lambda r: marked.get((r[0].worker, r[0].device), ""), None, 2, key="suspect"
        ),
    )
