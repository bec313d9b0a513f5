"""A fleet as text for the textfile collector of Prometheus' node exporter.

Format: https://prometheus.io/docs/instrumenting/exposition_formats/ (2026-11).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from gambrel.measure.fleet.records import Checkup, FleetFigure, FleetReport, Suspect

#: Figures of a board → name of the gauge, with its unit at the end as is usual there.
_BOARD: Final = {
    "clock_hz": ("gambrel_board_clock_hertz", "Median clock of a GPU while it was measured."),
    "power_w": ("gambrel_board_power_watts", "Highest power of a GPU while it was measured."),
    "celsius": ("gambrel_board_temperature_celsius", "Highest temperature of a GPU meanwhile."),
    "ecc_corrected": ("gambrel_board_ecc_corrected_errors", "Errors in memory, corrected."),
    "ecc_uncorrected": ("gambrel_board_ecc_uncorrected_errors", "Errors in memory, uncorrected."),
}


def textfile(report: FleetReport) -> str:
    """Gauges: rates, devices that are not like their peers, and each figure of a board."""
    return "".join(_gauges(report))


def _gauges(report: FleetReport) -> Iterator[str]:
    yield from _gauge(
        *("gambrel_rate", "Measured ceiling of a device, FLOP/s or B/s."),
        ((_of(c) | {"figure": f.name, "unit": f.unit}, f.value) for c, f in _figures(report)),
    )
    yield from _gauge(
        *("gambrel_suspect", "Whether a device is not like its peers, by cause."),
        ((_suspicion(s), 1) for s in report.suspects),
    )
    boards = [c for c in report.checkups if c.board is not None]
    for field, (name, about) in _BOARD.items():
        known = ((c, getattr(c.board, field)) for c in boards)
        yield from _gauge(name, about, ((_of(c), v) for c, v in known if v is not None))
    reasons = ((c, r) for c in boards for r in (c.board.throttled if c.board else ()))
    yield from _gauge(
        *("gambrel_board_throttled", "Why the driver lowered clocks meanwhile."),
        ((_of(c) | {"reason": reason}, 1) for c, reason in reasons),
    )


def _figures(report: FleetReport) -> Iterator[tuple[Checkup, FleetFigure]]:
    return ((c, f) for c in report.checkups for f in c.figures)


def _suspicion(one: Suspect) -> dict[str, str]:
    return {name: getattr(one, name) for name in ("worker", "device", "cause", "confidence")}


def _of(one: Checkup) -> dict[str, str]:
    return {"worker": one.worker, "host": one.host, "device": one.device, "sku": one.sku}


def _gauge(
    name: str, about: str, samples: Iterable[tuple[Mapping[str, str], float]]
) -> Iterator[str]:
    """A metric with its samples, each set of labels once; nothing where there are none."""
    lines = {f"{name}{{{_labels(**labels)}}}": value for labels, value in samples}
    if lines:
        yield f"# HELP {name} {about}\n# TYPE {name} gauge\n"
    for series, value in lines.items():
        yield f"{series} {value!r}\n"


def _labels(**values: str) -> str:
    return ",".join(f'{name}="{_escaped(text)}"' for name, text in values.items())


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
