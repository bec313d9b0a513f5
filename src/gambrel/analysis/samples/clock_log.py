"""Clocks and power that were logged beside a run, and how much of the time low clocks can explain.

At a fixed amount of work in clock cycles, a run at the mean clock takes (reference clock / mean
clock) times as long as one at the reference clock.
"""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from gambrel.roofline import utilization
from gambrel.units import format_percent, format_si

#: Bits of NVML's clocks event reasons that slow a busy GPU down; DCGM's are the same. nvml.h and
#: https://docs.nvidia.com/datacenter/dcgm/latest/dcgm-api/dcgm-api-field-constants.html, 2026-11.
REASONS: Final = {
    0x2: "clocks set by the user",
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x20: "temperature",
    0x40: "temperature",
    0x80: "power brake",
}
#: Share of a GPU's time from which a reading counts as busy.
_BUSY: Final = 0.5
#: Share of the busy readings that make a reason one.
_OFTEN: Final = 0.1
#: Of its limit, power that is at the limit.
_AT_LIMIT: Final = 0.97
#: Clocks this far below the reference are worth a word.
_LEAST: Final = 0.03


class ClockReading(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One moment of one GPU; what was not logged is None.

    Attributes:
        device: Index or name, as logged.
        clock_hz: Of the multiprocessors.
        max_clock_hz: The highest that the board allows.
        power_w: Power drawn.
        power_limit_w: Its limit.
        celsius: Temperature.
        busy: Share of the time with a kernel on it, 1.
        reasons: Why clocks are held down; None where not logged.
    """

    device: str = ""
    clock_hz: float | None = None
    max_clock_hz: float | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    celsius: float | None = None
    busy: float | None = None
    reasons: tuple[str, ...] | None = None


class Slowdown(msgspec.Struct, frozen=True, kw_only=True):
    """Clocks below what the GPU can do.

    Attributes:
        share: Of the time that the highest clock saves at most, 1.
        because: The reason that was logged most; empty where none was.
        evidence: What was read.
    """

    share: float
    because: str
    evidence: str


class ClockLog(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that was logged.

    Attributes:
        source: The file.
        readings: In the order logged.
    """

    source: str
    readings: tuple[ClockReading, ...]

    def slowdown(self) -> Slowdown | None:
        """How far below their highest clocks busy GPUs ran; the worst of several GPUs.

        Returns:
            None where no clock was logged, or clocks were at most 3 % low.
        """
        devices: dict[str, list[ClockReading]] = defaultdict(list)
        for reading in self.readings:
            devices[reading.device].append(reading)
        slow = [s for one in devices.values() if (s := _slowdown(_busy(one))) is not None]
        return max(slow, key=lambda s: s.share, default=None)

    @property
    def summary(self) -> str:
        """Clock, power and temperature while busy, in one sentence."""
        busy = _busy(self.readings)
        return f"{self.source}: {_said(busy)}, {len(busy):,} readings while busy"


def _busy(readings: Sequence[ClockReading]) -> list[ClockReading]:
    """Readings of a GPU at work: by its load where that was logged, else by its power."""
    if any(r.busy is not None for r in readings):
        return [r for r in readings if (r.busy or 0.0) >= _BUSY]
    watts = [r.power_w for r in readings if r.power_w is not None]
    if not watts or max(watts) < 2 * min(watts):  # never idle, as far as anybody can tell
        return list(readings)
    middle = (max(watts) + min(watts)) / 2
    return [r for r in readings if (r.power_w or 0.0) >= middle]


def _slowdown(busy: Sequence[ClockReading]) -> Slowdown | None:
    clocks = _known(r.clock_hz for r in busy)
    if not clocks:
        return None
    because, often = _reason(busy)
    highest = max(clocks)
    if because:
        highest = max([highest, *_known(r.max_clock_hz for r in busy)])
    share = 1.0 - utilization(statistics.fmean(clocks), highest)
    if share < _LEAST:
        return None
    said = f"; {because} in {format_percent(often)} of the readings" if because else ""
    evidence = f"{_said(busy)}, up to {format_si(highest, 'Hz')} possible{said}"
    return Slowdown(share=share, because=because, evidence=evidence)


def _reason(busy: Sequence[ClockReading]) -> tuple[str, float]:
    """The reason that was logged most, and in which share of the readings."""
    counts = Counter(reason for r in busy for reason in set(r.reasons or ()))
    if counts:
        reason, count = counts.most_common(1)[0]
        often = count / len(busy)
        return (reason, often) if often >= _OFTEN else ("", 0.0)
    if all(r.reasons is None for r in busy):
        full = [r for r in busy if r.power_w and r.power_limit_w]
        capped = sum((r.power_w or 0) >= _AT_LIMIT * (r.power_limit_w or 0) for r in full)
        if full and capped >= _OFTEN * len(full):
            return "power at its limit", capped / len(full)
    return "", 0.0


def _said(busy: Sequence[ClockReading]) -> str:
    """Means of what was logged."""
    parts = []
    for label, unit, values in (
        ("clock", "Hz", _known(r.clock_hz for r in busy)),
        ("", "W", _known(r.power_w for r in busy)),
        ("", "°C", _known(r.celsius for r in busy)),
    ):
        if values:
            parts.append(f"{label} {format_si(statistics.fmean(values), unit)}".strip())
    limits = _known(r.power_limit_w for r in busy)
    if limits and len(parts) > 1:
        parts[1] += f" of {format_si(max(limits), 'W')}"
    return ", ".join(parts) or "no clock and no power"


def _known(values: Iterable[float | None]) -> list[float]:
    return [v for v in values if v is not None]
