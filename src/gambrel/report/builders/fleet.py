"""A fleet: devices that are not like their peers, then the peers, then every device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gambrel.report.blocks import (
    DataTable,
    Document,
    Notes,
    amount,
    count,
    figures,
    section,
    sections,
    words,
)
from gambrel.report.options import Options
from gambrel.units import format_percent

if TYPE_CHECKING:
    from gambrel.measure.fleet.records import FleetReport

_SAID: Final = {
    "slow": "slow",
    "clock": "clock wrong",
    "silent": "no figures",
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
            section(Notes(items=found.warnings, heading="Also")),
            section(rows(found), folded="the figures of every device"),
        ),
    )


def _answer(found: FleetReport) -> list[str]:
    if not found.suspects:
        alone = max((p.devices for p in found.peers), default=0) < 3
        return ["Too few devices of a kind to compare." if alone else "All devices are alike."]
    names = dict.fromkeys(f"{s.worker} {s.device}" for s in found.suspects)
    listed = ", ".join(list(names)[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
    return [f"{len(names)} devices are not like their peers: {listed}."]


def _suspects(found: FleetReport) -> DataTable:
    s = found.suspects
    return DataTable(
        columns=(
            words("worker", [one.worker for one in s]),
            words("device", [one.device for one in s]),
            words("what", [_SAID[one.cause] for one in s]),
            words("confidence", [one.confidence for one in s], priority=3),
            words("evidence", [one.evidence for one in s], priority=2),
        ),
        all=True,
    )


def _peers(found: FleetReport) -> DataTable:
    p = found.peers
    return DataTable(
        heading="Devices of one kind",
        columns=(
            words("kind", [one.sku for one in p], priority=4),
            words("figure", [one.figure for one in p]),
            figures("devices", [one.devices for one in p], count, priority=1),
            figures("median", [one.median for one in p], amount),
            figures("slowest", [one.slowest for one in p], amount),
            figures("fastest", [one.fastest for one in p], amount, priority=2),
            figures("scatter", [one.mad_share for one in p], format_percent, priority=3),
        ),
    )


def rows(found: FleetReport) -> DataTable:
    """One row for each figure of each device."""
    every = [(one, f) for one in found.checkups for f in one.figures]
    marked = {(s.worker, s.device): s.cause for s in found.suspects}
    causes = [marked.get((one.worker, one.device), "") for one, _ in every]
    return DataTable(
        columns=(
            words("worker", [one.worker for one, _ in every], "worker"),
            words("host", [one.host for one, _ in every], "host", priority=4),
            words("device", [one.device for one, _ in every], "device"),
            words("kind", [one.sku for one, _ in every], "sku", priority=5),
            words("figure", [f.name for _, f in every], "figure"),
            figures("value", [f.value for _, f in every], amount, "value"),
            words("unit", [f.unit for _, f in every], "unit"),
            figures("spread", [f.spread for _, f in every], format_percent, "spread", priority=3),
            words("suspect", causes, "suspect", priority=2),
        )
    )
