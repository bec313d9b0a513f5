"""The roofs of a device as lines: engines and formats, memory, and where they meet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import msgspec

from gambrel.device.model import Ceiling, CeilingKind, Device, MemoryLevel, Source
from gambrel.units import format_number, format_si


class RoofLine(msgspec.Struct, frozen=True, kw_only=True):
    """A horizontal line: the peak of an engine in one or more number formats.

    Attributes:
        label: For reading, with the value.
        peak_flop_per_s: Its height.
        used: Whether work of this model is held against it; the others are drawn faint.
        source: Kind and title of the source.
    """

    label: str
    peak_flop_per_s: float
    used: bool
    source: str


class MemoryRoof(msgspec.Struct, frozen=True, kw_only=True):
    """A slanted line: rate = intensity × bandwidth.

    Attributes:
        label: For reading, with the value.
        byte_per_s: Its slope.
        used: Whether the model's traffic is held against it.
        source: Kind and title of the source.
    """

    label: str
    byte_per_s: float
    used: bool
    source: str


class Ridge(msgspec.Struct, frozen=True, kw_only=True):
    """Where a used compute roof meets the used memory roof.

    Attributes:
        arithmetic_intensity: FLOP/byte.
        flop_per_s: Height.
        main: Whether it is the ridge point of the whole model's main engine.
        label: For reading.
    """

    arithmetic_intensity: float
    flop_per_s: float
    main: bool
    label: str


class Entry(NamedTuple):
    """A roof of one engine and number format.

    Attributes:
        engine: Engine, or class of work.
        dtype: Number format.
        used: Whether work is held against it.
        source: Kind and title.
    """

    engine: str
    dtype: str
    used: bool
    source: str


def format_of(ceiling: Ceiling) -> str:
    """Its number format, with that of the sums where they differ."""
    return f"{ceiling.dtype}/{ceiling.accumulate}" if ceiling.accumulate else ceiling.dtype


def source_of(ceiling: Ceiling) -> str:
    """Kind and title of its source."""
    return origin_of(ceiling.kind, ceiling.source)


def roofs_of(entries: Iterable[tuple[float, Entry]]) -> tuple[RoofLine, ...]:
    """Compute roofs, highest first; those of one height are one line."""
    heights: dict[float, list[Entry]] = {}
    for peak, entry in entries:
        heights.setdefault(peak, []).append(entry)
    return tuple(_merged(peak, heights[peak]) for peak in sorted(heights, reverse=True))


def _merged(peak: float, entries: Sequence[Entry]) -> RoofLine:
    """One line for all roofs of one height; the used ones give it its name."""
    named = [e for e in entries if e.used] or entries
    engines = _unique(e.engine for e in named)
    groups = [f"{g} {', '.join(_unique(e.dtype for e in named if e.engine == g))}" for g in engines]
    return RoofLine(
        label=f"{'; '.join(map(str.rstrip, groups))} {format_si(peak, 'FLOP/s')}",
        peak_flop_per_s=peak,
        used=any(e.used for e in entries),
        source="; ".join(_unique(e.source for e in entries if e.source)),
    )


#: Name, byte/s and source of a bandwidth.
Slope = tuple[str, float, str]


def memory_roofs_of(device: Device, used: Callable[[MemoryLevel], bool]) -> tuple[MemoryRoof, ...]:
    """The known bandwidths of a device, highest first."""
    names = {m.name for m in device.memory if used(m)}
    return slanted(slopes_of(device), lambda name, _: name in names)


def slopes_of(device: Device) -> list[Slope]:
    """The known bandwidths of a device."""
    return [
        (m.name, m.byte_per_s, origin_of(m.kind, m.bandwidth_source))
        for m in device.memory
        if m.byte_per_s
    ]


def slanted(slopes: Iterable[Slope], used: Callable[[str, float], bool]) -> tuple[MemoryRoof, ...]:
    """Memory roofs, highest first; ``used`` is asked by name and byte/s."""
    return tuple(
        MemoryRoof(
            label=f"{name} {format_si(rate, 'B/s')}",
            byte_per_s=rate,
            used=used(name, rate),
            source=origin,
        )
        for name, rate, origin in sorted(slopes, key=lambda slope: -slope[1])
    )


def main_ridge(roofs: Sequence[RoofLine], memory: Sequence[MemoryRoof]) -> tuple[Ridge, ...]:
    """Where the highest used compute roof meets the lowest of the used memory roofs."""
    peaks = [r.peak_flop_per_s for r in roofs if r.used]
    slopes = [m.byte_per_s for m in memory if m.used]
    return tuple(ridge_at(peak, slopes[-1], main=True) for peak in peaks[:1] if slopes)


def ridge_at(peak: float, slope: float, *, main: bool) -> Ridge:
    """Where a compute roof meets a bandwidth."""
    x = peak / slope
    label = f"ridge {format_number(x, 3)} FLOP/byte"
    return Ridge(arithmetic_intensity=x, flop_per_s=peak, main=main, label=label)


def origin_of(kind: CeilingKind, source: Source | None) -> str:
    """Kind and title of a source, as far as it is known."""
    return f"{kind.value}: {source.title}" if source else kind.value


def _unique(items: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(items))
