"""The catalog for a terminal: a list of devices, and one device with all its sources."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from gambrel.device.explain import explain
from gambrel.device.levels import byte_per_s, capacity_bytes
from gambrel.device.listing import DeviceRow
from gambrel.device.model import Ceiling, Device, MemoryLevel, Source
from gambrel.device.roofs import main_memory
from gambrel.report.layout import Column, hanging, line, listed, show, table
from gambrel.report.options import Options
from gambrel.units import format_capacity, format_number, format_si

if TYPE_CHECKING:
    from rich.console import RenderableType


def render_list(rows: Sequence[DeviceRow], options: Options | None = None) -> str:
    """A table of devices, one line each."""
    options = options or Options()
    if not rows:
        return "No device matches. Run 'gambrel hardware list' to see all.\n"
    columns = [
        Column(title="device", cells=tuple(r.id for r in rows), align="left", minimum=18),
        Column(
            title="name",
            cells=tuple(r.name for r in rows),
            align="left",
            priority=8,
            minimum=20,
        ),
        Column(title="class", cells=tuple(r.category for r in rows), align="left", priority=6),
        Column(title="year", cells=tuple(str(r.year or "unknown") for r in rows), priority=7),
        Column(title="format", cells=tuple(r.precision for r in rows), align="left", priority=1),
        _column("dense", 0, (format_si(r.peak_flop_per_s, "") for r in rows)),
        _column("byte/s", 0, (format_si(r.peak_byte_per_s, "") for r in rows)),
        _column("ridge", 2, (format_number(r.ridge_point) for r in rows)),
        _column("memory", 3, (format_capacity(r.capacity_bytes) for r in rows)),
        _column("TDP", 4, (format_si(r.tdp_w, "W") for r in rows)),
    ]
    foot = (
        f"{len(rows)} devices. Peaks are dense FLOP/s (integer: OP/s) in the format shown; unknown "
        "means that the device has no such roof or publishes none."
    )
    return show([[table(columns, options.columns)], [line(foot)]], options)


def render_device(device: Device, notes: Sequence[str] = (), options: Options | None = None) -> str:
    """Every ceiling of a device with its source; what is sparse, what is unknown."""
    options = options or Options()
    width = options.columns
    blocks = [
        _header(device, notes),
        _ceilings(device, width),
        _memory(device, width),
        _links(device, width),
        listed("Notes", explain(device)),
        listed("Unknown", [", ".join(device.unknown)] if device.unknown else []),
        _sources(device),
    ]
    return show(blocks, options)


def _header(device: Device, notes: Sequence[str]) -> list[RenderableType]:
    facts = [device.vendor, device.category, device.architecture, str(device.year or "")]
    tdp = f"TDP {format_si(device.tdp_w, 'W')}"
    called = [f"also called: {', '.join(device.aliases)}"] if device.aliases else []
    return [
        line((f"{device.name} ({device.id})", "title")),
        line(", ".join([f for f in facts if f] + [tdp])),
        hanging((("", text) for text in (*called, *notes)), 2),
    ]


def _ceilings(device: Device, width: int) -> list[RenderableType]:
    if not device.ceilings:
        return [line("No compute roof is known.")]
    memory = main_memory(device)
    rate = memory.byte_per_s if memory else None
    keys = _source_keys(device)
    roofs = device.ceilings

    def ridge(value: float | None) -> str:
        return format_number(value / rate) if value and rate else "unknown"

    columns = [
        Column(title="engine", cells=tuple(c.engine for c in roofs), align="left"),
        Column(title="format", cells=tuple(_format(c) for c in roofs), align="left"),
        _column("dense", 0, (format_si(c.flop_per_s, "") for c in roofs)),
        _column("ridge", 0, (ridge(c.flop_per_s) for c in roofs)),
        _column("sparse", 1, (_known(c.sparse_flop_per_s) for c in roofs)),
        _column(
            "ridge sparse",
            2,
            (ridge(c.sparse_flop_per_s) if c.sparse_flop_per_s else "–" for c in roofs),
        ),
        Column(title="kind", cells=tuple(c.kind.value for c in roofs), align="left", priority=4),
        Column(
            title="source", cells=tuple(_cited(c, keys) for c in roofs), align="left", priority=3
        ),
        Column(
            title="note",
            cells=tuple(c.note for c in roofs),
            align="left",
            priority=5,
            minimum=20,
        ),
    ]
    head = "Compute roofs, FLOP/s (integer formats: OP/s); ridge in FLOP/byte of main memory"
    return [line(head), table(columns, width)]


def _memory(device: Device, width: int) -> list[RenderableType]:
    if not device.memory:
        return [line("No memory level is known.")]
    keys = _source_keys(device)
    levels = device.memory
    columns = [
        Column(title="memory", cells=tuple(m.name for m in levels), align="left"),
        Column(title="type", cells=tuple(m.technology or "–" for m in levels), align="left"),
        _column("capacity", 0, (format_capacity(capacity_bytes(device, m)) for m in levels)),
        _column("byte/s", 0, (format_si(byte_per_s(device, m), "") for m in levels)),
        Column(
            title="source",
            cells=tuple(_level_cited(m, keys) for m in levels),
            align="left",
            priority=3,
        ),
        Column(
            title="note",
            cells=tuple(m.note for m in levels),
            align="left",
            priority=5,
            minimum=20,
        ),
    ]
    return [table(columns, width)]


def _links(device: Device, width: int) -> list[RenderableType]:
    if not device.links:
        return []
    keys = _source_keys(device)
    links = device.links
    columns = [
        Column(title="link", cells=tuple(x.name for x in links), align="left"),
        _column("byte/s", 0, (format_si(x.byte_per_s, "") for x in links)),
        Column(title="direction", cells=tuple(x.direction for x in links), align="left"),
        Column(
            title="source",
            cells=tuple(f"[{keys[x.source]}]" for x in links),
            align="left",
            priority=3,
        ),
        Column(
            title="note",
            cells=tuple(x.note for x in links),
            align="left",
            priority=5,
            minimum=20,
        ),
    ]
    return [table(columns, width)]


def _sources(device: Device) -> list[RenderableType]:
    keys = _source_keys(device)
    if not keys:
        return []
    cited = [(f"[{key}]", _reference(source)) for source, key in keys.items()]
    return [line(("Sources", "bold")), hanging(cited, len(cited[-1][0]) + 1)]


def _reference(source: Source) -> str:
    dated = f", {source.date}" if source.date else ""
    url = f" {source.url}" if source.url else ""
    return f"{source.title}{dated} ({source.confidence}){url}"


def _source_keys(device: Device) -> dict[Source, int]:
    found: dict[Source, int] = {}
    for source in _all_sources(device):
        if source is not None:
            found.setdefault(source, len(found) + 1)
    return found


def _all_sources(device: Device) -> Iterable[Source | None]:
    for c in device.ceilings:
        yield c.source
        yield c.sparse_source
    for m in device.memory:
        yield m.bandwidth_source
        yield m.capacity_source
    for link in device.links:
        yield link.source
    yield device.tdp_source


def _cited(c: Ceiling, keys: dict[Source, int]) -> str:
    cited = [keys[s] for s in (c.source, c.sparse_source) if s is not None]
    return "".join(f"[{k}]" for k in dict.fromkeys(cited))


def _level_cited(m: MemoryLevel, keys: dict[Source, int]) -> str:
    cited = [keys[s] for s in (m.bandwidth_source, m.capacity_source) if s is not None]
    return "".join(f"[{k}]" for k in dict.fromkeys(cited))


def _format(c: Ceiling) -> str:
    return f"{c.dtype} ({c.accumulate} acc.)" if c.accumulate else c.dtype


def _known(value: float | None) -> str:
    return format_si(value, "") if value else "–"


def _column(title: str, priority: int, cells: Iterable[str]) -> Column:
    return Column(title=title, cells=tuple(cells), priority=priority)
