"""One device: every ceiling with its source; what is sparse, what is unknown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, Final

import msgspec

from gambrel import roofline
from gambrel.device.explain import explain, power
from gambrel.device.levels import byte_per_s, capacity_bytes
from gambrel.device.model import Ceiling, Device, MemoryLevel, Source
from gambrel.device.modes import MARK
from gambrel.device.roofs import main_memory, resolve
from gambrel.report.answers import Sheet
from gambrel.report.blocks import (
    DataTable,
    Document,
    FactList,
    KeyFigure,
    Notes,
    amount,
    col,
    ratio,
    section,
    sections,
    table_of,
)
from gambrel.report.options import Options
from gambrel.report.roofs_chart import main_format
from gambrel.report.text import cut
from gambrel.units import format_capacity, format_number, format_si

_HEAD: Final = "Compute roofs, FLOP/s (integer formats: OP/s); ridge in FLOP/byte of main memory"


def document(sheet: Sheet, _options: Options) -> Document:
    """The roofs lead, then memory, links, notes and sources."""
    device = sheet.device
    facts = [device.vendor, device.category, device.architecture, str(device.year or "")]
    called = [f"also called: {', '.join(device.aliases)}"] if device.aliases else []
    unknown = (", ".join(device.unknown),) if device.unknown else ()
    keys = _source_keys(device)
    cited = tuple((f"[{key}]", _reference(source)) for source, key in keys.items())
    return Document(
        title=f"{device.name} ({device.id})",
        answer=(", ".join([f for f in facts if f] + [power(device)]), *called, *sheet.notes),
        sections=sections(
            section(_ceilings(device, keys)),
            section(_memory(device, keys)),
            section(_links(device, keys)),
            section(_modes(device, keys)),
            section(Notes(heading="Notes", items=tuple(explain(device)))),
            section(Notes(heading="Unknown", items=unknown)),
            section(FactList(heading="Sources", items=cited)),
        ),
        source="the sources listed below",
        figures=tuple(_key_figures(device)),
    )


def _key_figures(device: Device) -> Iterator[KeyFigure]:
    memory, form = main_memory(device), main_format(device)
    best = resolve(device, "matrix", form) or resolve(device, "vector", form) if form else None
    roof = device.ceiling(best.engine, best.dtype) if best else None
    rate = byte_per_s(device, memory) if memory else None
    if roof is not None:
        yield KeyFigure(
            label="peak",
            text=format_si(roof.flop_per_s, "FLOP/s"),
            note=f"{roof.engine} {roof.dtype}, dense",
            formula="as published, without structured sparsity",
            source=_reference(roof.source) if roof.source else "",
        )
    if memory is not None:
        yield KeyFigure(
            label="bandwidth",
            text=format_si(rate, "B/s"),
            note=memory.technology or memory.name,
            formula="as published: data rate x width of the bus",
            source=_reference(memory.bandwidth_source) if memory.bandwidth_source else "",
        )
    if roof is not None and rate:
        ridge = roofline.ratio(roof.flop_per_s, rate)
        yield KeyFigure(
            label="ridge point", text=f"{format_number(ridge)} FLOP/byte", key="ridge_point"
        )
    if memory is not None:
        yield KeyFigure(
            label="memory",
            text=format_capacity(capacity_bytes(device, memory), 3),
            formula="as published",
        )
    yield KeyFigure(
        label="TDP",
        text=format_si(device.tdp_w, "W"),
        formula="thermal design power, as published",
        source=_reference(device.tdp_source) if device.tdp_source else "",
    )


def content(sheet: Sheet, _options: Options | None = None) -> dict[str, Any]:
    """The device as its TOML has it, and what explains its figures."""
    found: dict[str, Any] = msgspec.to_builtins(sheet.device)
    return found | {"explained": explain(sheet.device), "understood": sheet.notes}


def _ceilings(device: Device, keys: dict[Source, int]) -> DataTable:
    roofs, memory = device.ceilings, main_memory(device)
    rate = memory.byte_per_s if memory else None

    def ridge(values: Iterable[float | None]) -> list[float | None]:
        return [roofline.ratio(v, rate) if v and rate else None for v in values]

    if not roofs:
        return DataTable(columns=(), note="No compute roof is known.")
    ridges = ridge(c.flop_per_s for c in roofs), ridge(c.sparse_flop_per_s for c in roofs)
    rows = list(zip(roofs, *ridges, strict=True))
    return table_of(
        rows,
        col("engine", lambda r: r[0].engine, key="engine"),
        col("format", lambda r: _format(r[0]), key="dtype"),
        col("dense", lambda r: r[0].flop_per_s, amount, key="flop_per_s"),
        col("ridge", lambda r: r[1], ratio, key="ridge_point"),
        col("sparse", lambda r: r[0].sparse_flop_per_s, _known, 1, key="sparse_flop_per_s"),
        col("ridge sparse", lambda r: r[2], lambda v: ratio(v) if v else "–", 2),
        col("kind", lambda r: r[0].kind.value, priority=4, key="kind"),
        col("source", lambda r: _cited((r[0].source, r[0].sparse_source), keys), priority=3),
        col("note", lambda r: r[0].note, priority=5, minimum=20, shorten=cut),
        heading=_HEAD,
        all=True,
    )


def _memory(device: Device, keys: dict[Source, int]) -> DataTable:
    levels = device.memory
    if not levels:
        return DataTable(columns=(), note="No memory level is known.")
    return table_of(
        levels,
        col("memory", "name"),
        col("type", lambda m: m.technology or "–"),
        col("capacity", lambda m: capacity_bytes(device, m), format_capacity),
        col("byte/s", lambda m: byte_per_s(device, m), amount),
        col("source", lambda m: _level_cited(m, keys), priority=3),
        col("note", "note", priority=5, minimum=20, shorten=cut),
        all=True,
    )


def _links(device: Device, keys: dict[Source, int]) -> DataTable:
    return table_of(
        device.links,
        col("link", "name"),
        col("byte/s", "byte_per_s", amount),
        col("direction", "direction"),
        col("source", lambda x: f"[{keys[x.source]}]", priority=3),
        col("note", "note", priority=5, minimum=20, shorten=cut),
        all=True,
    )


def _modes(device: Device, keys: dict[Source, int]) -> DataTable:
    return table_of(
        device.modes,
        col("power mode", lambda m: f"{device.id}{MARK}{m.name}", key="name"),
        col("at most", "tdp_w", partial(format_si, unit="W")),
        col("clock", "boost_clock_hz", partial(format_si, unit="Hz")),
        col("units", "num_units", lambda n: "all" if n is None else str(n)),
        col("byte/s", "byte_per_s", lambda b: "–" if b is None else amount(b)),
        col("source", lambda m: f"[{keys[m.source]}]", priority=3),
        col("note", "note", priority=5, minimum=20, shorten=cut),
        all=True,
    )


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
        yield from (c.source, c.sparse_source)
    for m in device.memory:
        yield from (m.bandwidth_source, m.capacity_source)
    yield from (link.source for link in device.links)
    yield from (device.tdp_source, device.typical_power_source, device.idle_power_source)
    yield from (mode.source for mode in device.modes)


def _cited(sources: Iterable[Source | None], keys: dict[Source, int]) -> str:
    return "".join(f"[{k}]" for k in dict.fromkeys(keys[s] for s in sources if s is not None))


def _level_cited(m: MemoryLevel, keys: dict[Source, int]) -> str:
    return _cited((m.bandwidth_source, m.capacity_source), keys)


def _format(c: Ceiling) -> str:
    return f"{c.dtype} ({c.accumulate} acc.)" if c.accumulate else c.dtype


def _known(value: float | None) -> str:
    return format_si(value, "") if value else "–"
