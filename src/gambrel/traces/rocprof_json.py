"""Results of ``rocprofv3 --output-format json``: dispatches, counters and the GPU they ran on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from gambrel.analysis.samples import Sample, Samples
from gambrel.errors import FileFormatError
from gambrel.traces.cdna import PREFIXES, fields_of
from gambrel.traces.launches import LaunchList
from gambrel.traces.source import read_bytes

FORMAT: Final = "rocprofv3 JSON"
_KEY: Final = '"rocprofiler-sdk-tool"'


class _Handle(msgspec.Struct, frozen=True):
    handle: int = 0


class _Shape(msgspec.Struct, frozen=True):
    x: int = 1
    y: int = 1
    z: int = 1


class _Info(msgspec.Struct, frozen=True):
    kernel_id: int
    dispatch_id: int = 0
    agent_id: _Handle = _Handle()
    workgroup_size: _Shape = _Shape()
    grid_size: _Shape = _Shape()


class _Dispatch(msgspec.Struct, frozen=True):
    dispatch_info: _Info
    start_timestamp: int = 0
    end_timestamp: int = 0


class _Count(msgspec.Struct, frozen=True):
    counter_id: _Handle
    value: float = 0.0


class _Collection(msgspec.Struct, frozen=True):
    dispatch_data: _Dispatch
    records: list[_Count] = []


class _Buffers(msgspec.Struct, frozen=True):
    kernel_dispatch: list[_Dispatch] = []


class _Callbacks(msgspec.Struct, frozen=True):
    counter_collection: list[_Collection] = []


class _Symbol(msgspec.Struct, frozen=True):
    kernel_id: int
    formatted_kernel_name: str = ""
    kernel_name: str = ""


class _Counter(msgspec.Struct, frozen=True):
    id: _Handle
    name: str = ""


class _Agent(msgspec.Struct, frozen=True):
    id: _Handle = _Handle()
    name: str = ""
    product_name: str = ""


class _Tool(msgspec.Struct, frozen=True):
    buffer_records: _Buffers = _Buffers()
    callback_records: _Callbacks = _Callbacks()
    kernel_symbols: list[_Symbol] = []
    counters: list[_Counter] = []
    agents: list[_Agent] = []


class _File(msgspec.Struct, frozen=True, rename={"tools": "rocprofiler-sdk-tool"}):
    tools: list[_Tool]


def is_rocprof_json(text: str) -> bool:
    """Whether text begins like a result of rocprofv3."""
    return text.lstrip("\ufeff \r\n\t").startswith("{") and _KEY in text


def read(path: Path, chip: str = "") -> Samples:
    """Reads the dispatches, with counters where they were collected.

    Args:
        path: Of the file.
        chip: Such as ``"gfx942"``; empty for what the file says.

    Raises:
        FileFormatError: Not readable, damaged, or without dispatches.
    """
    try:
        tools = msgspec.json.decode(read_bytes(path), type=_File).tools
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise FileFormatError(f"{path}: no complete result of rocprofv3 ({error}).") from None
    collected, names = LaunchList(), set()
    for tool in tools:
        used = {d.dispatch_info.agent_id.handle for d in _dispatches(tool)}
        agents = [agent for agent in tool.agents if agent.id.handle in used]
        names |= {agent.product_name for agent in agents if agent.product_name}
        target = chip if chip.startswith("gfx") else next((a.name for a in agents), "")
        collected.extend(_samples(tool, target))
    if not collected.launches:
        raise FileFormatError(
            f"{path}: no dispatch of a kernel in it; record with rocprofv3 --kernel-trace or --pmc."
        )
    return Samples(
        format=FORMAT,
        sources=(str(path),),
        launches=tuple(collected.launches),
        device_name=names.pop() if len(names) == 1 else "",
        notes=collected.notes(),
    )


def _dispatches(tool: _Tool) -> list[_Dispatch]:
    counted = [c.dispatch_data for c in tool.callback_records.counter_collection]
    return [*tool.buffer_records.kernel_dispatch, *counted]


def _samples(tool: _Tool, chip: str) -> Iterator[Sample]:
    """Dispatches with their counters; times are those of the trace, where there is one."""
    names = {s.kernel_id: s.formatted_kernel_name or s.kernel_name for s in tool.kernel_symbols}
    counters = {c.id.handle: c.name.removesuffix("_sum") for c in tool.counters}
    counted: dict[int, dict[str, float]] = {}
    found = {d.dispatch_info.dispatch_id: d for d in reversed(_dispatches(tool))}
    for collection in tool.callback_records.counter_collection:
        mine = counted.setdefault(collection.dispatch_data.dispatch_info.dispatch_id, {})
        for record in collection.records:
            name = counters.get(record.counter_id.handle, "")
            if name.startswith(PREFIXES):
                mine[name] = mine.get(name, 0.0) + record.value
    for number, dispatch in sorted(found.items()):
        info = dispatch.dispatch_info
        name = names.get(info.kernel_id) or f"kernel {info.kernel_id}"
        yield _sample(name.removesuffix(".kd"), dispatch, counted.get(number, {}), chip)


def _sample(name: str, dispatch: _Dispatch, counters: dict[str, float], chip: str) -> Sample:
    return Sample(
        name=name,
        time_s=max(dispatch.end_timestamp - dispatch.start_timestamp, 0) * 1e-9 or None,
        **fields_of(counters, chip),
        grid=_text(dispatch.dispatch_info.grid_size),
        block=_text(dispatch.dispatch_info.workgroup_size),
    )


def _text(shape: _Shape) -> str:
    return f"({shape.x}, {shape.y}, {shape.z})"
