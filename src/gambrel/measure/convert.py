"""From a survey to a device, and from a device to the text of a device file."""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec

from gambrel.device.files import LEVELS
from gambrel.device.model import Ceiling, CeilingKind, Device, Fact, Link, MemoryLevel, Source
from gambrel.measure.records import Measurement, Survey
from gambrel.units import format_si

#: Levels of a device by those of a survey; the last cache has one name for any depth.
_LEVEL_NAMES: Final = {"L3": "LLC", "L4": "LLC"}


def to_device(survey: Survey) -> Device:
    """The device that a survey describes: every ceiling measured, what was not measured absent.

    An engine's roof is the best mix that work is counted in (a fused multiply-add is two FLOP), a
    level's bandwidth the best access mix, always with all cores.
    """
    source = Source(
        title=f"measured by gambrel {survey.versions.get('gambrel', '')}".strip(),
        date=survey.date,
        confidence="measured",
    )
    return Device(
        id=survey.id,
        name=survey.name,
        vendor=survey.vendor,
        category=survey.category,
        architecture=survey.architecture,
        ceilings=tuple(_ceilings(survey, source)),
        memory=tuple(_levels(survey, source)),
        links=tuple(_links(survey, source)),
        facts=tuple(_facts(survey, source)),
        aliases=("this",),
        notes=(
            "Every ceiling was measured on this machine.",
            *survey.notes,
            *_spread_notes(survey),
        ),
        unknown=survey.unknown,
    )


def _ceilings(survey: Survey, source: Source) -> list[Ceiling]:
    keys = dict.fromkeys(
        (m.resource, m.dtype) for m in survey.measurements if m.resource in {"vector", "matrix"}
    )
    engines = {dtype: [e for e, d in keys if d == dtype] for _, dtype in keys}
    found = []
    for engine, dtype in keys:
        best = survey.best(engine, dtype)
        if best is None:
            continue
        # A dot-product instruction serves matrix work only: beside a matrix engine it is the slower
        # way, and without one it is the machine's engine for matrix work in that format.
        if best.mix == "dot" and "matrix" in engines[dtype]:
            continue
        found.append(
            Ceiling(
                engine="matrix" if best.mix == "dot" else engine,
                dtype=dtype,
                flop_per_s=best.value,
                kind=CeilingKind.MEASURED,
                source=source,
                note=_about(best),
            )
        )
    return found


def _levels(survey: Survey, source: Source) -> list[MemoryLevel]:
    levels = []
    for name in ("DRAM", "L4", "L3", "L2", "L1"):
        best, capacity = survey.best(name), survey.capacities.get(name)
        label = _LEVEL_NAMES.get(name, name)
        if (best is None and capacity is None) or label not in LEVELS:
            continue
        levels.append(
            MemoryLevel(
                name=label,
                capacity_bytes=capacity,
                capacity_source=Source(title="operating system", date=survey.date)
                if capacity
                else None,
                byte_per_s=best.value if best else None,
                bandwidth_source=source if best else None,
                kind=CeilingKind.MEASURED,
                note=_about(best) if best else "bandwidth not measured",
            )
        )
    return levels


def _links(survey: Survey, source: Source) -> list[Link]:
    best = survey.best("host link")
    if best is None:
        return []
    return [
        Link(
            name="pcie",
            byte_per_s=best.value,
            direction="per direction",
            source=source,
            note=_about(best),
        )
    ]


def _facts(survey: Survey, source: Source) -> list[Fact]:
    clocks = [m.clock_hz for m in survey.measurements if m.clock_hz]
    facts = []
    system = Source(title="driver", date=survey.date)
    for name, value, unit in (
        ("num_units", survey.num_units, "CU" if survey.vendor == "AMD" else "SM"),
        ("boost_clock", survey.boost_clock_hz, "Hz"),
    ):
        if value is not None:
            facts.append(Fact(name=name, value=float(value), unit=unit, source=system))
    if clocks:
        middle = sorted(clocks)[len(clocks) // 2]
        facts.append(Fact(name="clock", value=middle, unit="Hz", source=source))
    for m in survey.measurements:
        facts.append(
            Fact(
                name="_".join(
                    filter(None, [m.resource, m.dtype, m.mix.replace(" ", "_"), f"{m.threads}t"])
                ),
                value=m.value,
                unit=m.unit,
                source=source,
                note=_about(m),
            )
        )
    return facts


def _about(m: Measurement) -> str:
    threads = {0: "", 1: "1 thread, "}.get(m.threads, f"{m.threads} threads, ")
    clock = f", {format_si(m.clock_hz, 'Hz', 3)}" if m.clock_hz else ""
    note = f"; {m.note}" if m.note else ""
    return f"{m.mix}, {threads}spread {m.spread:.0%} over {m.rounds} rounds{clock}{note}"


def _spread_notes(survey: Survey) -> tuple[str, ...]:
    wide = [m for m in survey.measurements if m.spread > 0.1]
    if not wide:
        return ()
    worst = max(wide, key=lambda m: m.spread)
    return (
        f"{len(wide)} of {len(survey.measurements)} figures differ by more than 10% between rounds "
        f"(most: {worst.resource} {worst.mix}, {worst.spread:.0%}).",
    )


def to_toml(device: Device) -> str:
    """A device as the text of a device file; `gambrel.device.files.load_file` reads it back."""
    sources: dict[Source, str] = {}

    def key(source: Source) -> str:
        return sources.setdefault(source, f"s{len(sources) + 1}")

    plain = _fields(device, skip={"ceilings", "memory", "links", "facts"}, key=key)
    tables = [
        f"[[{name}]]\n" + _fields(row, skip=set(), key=key)
        for name in ("ceilings", "memory", "links", "facts")
        for row in getattr(device, name)
    ]
    listed = [
        f"[sources.{name}]\n" + _fields(source, skip=set(), key=key)
        for source, name in sources.items()
    ]
    return "\n".join([plain, *listed, *tables])


def _fields(record: msgspec.Struct, *, skip: set[str], key: Any) -> str:
    lines = []
    for name in record.__struct_fields__:
        value = getattr(record, name)
        if name in skip or value is None or value in ("", ()):
            continue
        lines.append(f"{name} = {_value(value, key)}\n")
    return "".join(lines)


def _value(value: Any, key: Any) -> str:
    if isinstance(value, Source):
        return f'"{key(value)}"'
    if isinstance(value, tuple):
        return f"[{', '.join(_value(v, key) for v in value)}]"
    if isinstance(value, float):
        return repr(value)
    # JSON's strings and whole numbers are TOML's as well, DEL apart.
    return json.dumps(str(value) if isinstance(value, str) else value).replace("\x7f", "\\u007f")
