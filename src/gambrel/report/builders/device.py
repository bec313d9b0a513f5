"""One device: every ceiling with its source; what is sparse, what is unknown."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from gambrel.device.explain import explain
from gambrel.device.levels import byte_per_s, capacity_bytes
from gambrel.device.model import Ceiling, Device, MemoryLevel, Source
from gambrel.device.roofs import main_memory
from gambrel.report.answers import Sheet
from gambrel.report.blocks import (
    DataTable,
    Document,
    FactList,
    Notes,
    amount,
    figures,
    ratio,
    section,
    sections,
    words,
)
from gambrel.report.options import Options
from gambrel.report.text import cut
from gambrel.units import format_capacity, format_si

_HEAD: Final = "Compute roofs, FLOP/s (integer formats: OP/s); ridge in FLOP/byte of main memory"


def document(sheet: Sheet, _options: Options) -> Document:
    """The roofs lead, then memory, links, notes and sources."""
    device = sheet.device
    facts = [device.vendor, device.category, device.architecture, str(device.year or "")]
    tdp = f"TDP {format_si(device.tdp_w, 'W')}"
    called = [f"also called: {', '.join(device.aliases)}"] if device.aliases else []
    unknown = (", ".join(device.unknown),) if device.unknown else ()
    keys = _source_keys(device)
    cited = tuple((f"[{key}]", _reference(source)) for source, key in keys.items())
    return Document(
        title=f"{device.name} ({device.id})",
        answer=(", ".join([f for f in facts if f] + [tdp]), *called, *sheet.notes),
        sections=sections(
            section(_ceilings(device, keys)),
            section(_memory(device, keys)),
            section(_links(device, keys)),
            section(Notes(heading="Notes", items=tuple(explain(device)))),
            section(Notes(heading="Unknown", items=unknown)),
            section(FactList(heading="Sources", items=cited)),
        ),
    )


def content(sheet: Sheet, _options: Options | None = None) -> dict[str, Any]:
    """The device as its TOML has it, and what explains its figures."""
    found: dict[str, Any] = msgspec.to_builtins(sheet.device)
    return found | {"explained": explain(sheet.device), "understood": sheet.notes}


def _ceilings(device: Device, keys: dict[Source, int]) -> DataTable:
    roofs, memory = device.ceilings, main_memory(device)
    rate = memory.byte_per_s if memory else None

    def ridge(values: Iterable[float | None]) -> list[float | None]:
        return [v / rate if v and rate else None for v in values]

    sparse = [c.sparse_flop_per_s for c in roofs]
    columns = (
        words("engine", (c.engine for c in roofs), "engine"),
        words("format", map(_format, roofs), "dtype"),
        figures("dense", (c.flop_per_s for c in roofs), amount, "flop_per_s"),
        figures("ridge", ridge(c.flop_per_s for c in roofs), ratio, "ridge_point"),
        figures("sparse", sparse, _known, "sparse_flop_per_s", priority=1),
        figures("ridge sparse", ridge(sparse), lambda v: ratio(v) if v else "–", priority=2),
        words("kind", (c.kind.value for c in roofs), "kind", priority=4),
        words("source", (_cited((c.source, c.sparse_source), keys) for c in roofs), priority=3),
        words("note", (c.note for c in roofs), priority=5, minimum=20, shorten=cut),
    )
    return DataTable(
        heading=_HEAD if roofs else "",
        columns=columns if roofs else (),
        note="" if roofs else "No compute roof is known.",
        all=True,
    )


def _memory(device: Device, keys: dict[Source, int]) -> DataTable:
    levels = device.memory
    if not levels:
        return DataTable(columns=(), note="No memory level is known.")
    return DataTable(
        columns=(
            words("memory", (m.name for m in levels)),
            words("type", (m.technology or "–" for m in levels)),
            figures("capacity", (capacity_bytes(device, m) for m in levels), format_capacity),
            figures("byte/s", (byte_per_s(device, m) for m in levels), amount),
            words("source", (_level_cited(m, keys) for m in levels), priority=3),
            words("note", (m.note for m in levels), priority=5, minimum=20, shorten=cut),
        ),
        all=True,
    )


def _links(device: Device, keys: dict[Source, int]) -> DataTable | None:
    links = device.links
    if not links:
        return None
    return DataTable(
        columns=(
            words("link", (x.name for x in links)),
            figures("byte/s", (x.byte_per_s for x in links), amount),
            words("direction", (x.direction for x in links)),
            words("source", (f"[{keys[x.source]}]" for x in links), priority=3),
            words("note", (x.note for x in links), priority=5, minimum=20, shorten=cut),
        ),
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
    yield device.tdp_source


def _cited(sources: Iterable[Source | None], keys: dict[Source, int]) -> str:
    return "".join(f"[{k}]" for k in dict.fromkeys(keys[s] for s in sources if s is not None))


def _level_cited(m: MemoryLevel, keys: dict[Source, int]) -> str:
    return _cited((m.bandwidth_source, m.capacity_source), keys)


def _format(c: Ceiling) -> str:
    return f"{c.dtype} ({c.accumulate} acc.)" if c.accumulate else c.dtype


def _known(value: float | None) -> str:
    return format_si(value, "") if value else "–"
