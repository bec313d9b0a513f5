"""A Kineto trace as samples: kernels joined with the ops that launched them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Final

from gambrel.analysis.samples import Known, Sample, Samples
from gambrel.errors import FileFormatError
from gambrel.traces.kineto.events import Event, Trace, load, to_int
from gambrel.traces.kineto.spans import Span, length
from gambrel.traces.kineto.tree import Forest, OpNode
from gambrel.traces.kineto.work import Worked, op_work

FORMAT: Final = "PyTorch trace"
_US: Final = 1e-6
_COPIES: Final = frozenset({"gpu_memcpy", "gpu_memset"})
_COMMUNICATION: Final = re.compile(r"nccl|rccl|oneccl|hccl|mscclpp", re.IGNORECASE)
_TF32: Final = re.compile(r"tf32|s1688gemm_(?!fp16|f16|bf16)", re.IGNORECASE)
_MOST_SHAPES: Final = 120


@dataclass(slots=True)
class _Parts:
    """Events by what they are."""

    kernels: list[tuple[Event, Span]] = field(default_factory=list)
    copies: list[tuple[Event, Span]] = field(default_factory=list)
    ops: list[tuple[Event, Span]] = field(default_factory=list)
    launches: list[tuple[Event, Span]] = field(default_factory=list)
    skipped: int = 0


def read(path: Path) -> Samples:
    """Reads a trace, ``.json`` or ``.json.gz``.

    Raises:
        FileFormatError: Not readable, truncated, or without kernels and ops.
    """
    trace = load(path)
    parts = _sort(trace)
    if not parts.kernels and not parts.ops and not parts.copies:
        raise FileFormatError(f"{path}: the trace has neither kernels nor ops with a duration.")
    forest = Forest(parts.ops)
    on_gpu = bool(parts.kernels or parts.copies)
    launches = _gpu(parts, forest) if on_gpu else _cpu(forest)
    names = list(dict.fromkeys(str(d.name) for d in trace.devices or [] if d.name))
    return Samples(
        format=FORMAT,
        sources=(str(path),),
        launches=tuple(launches),
        device_name=names[0] if len(names) == 1 else "",
        notes=tuple(_notes(launches, names, on_gpu)),
        skipped={"events without a usable time": parts.skipped} if parts.skipped else {},
        spans=_time_of(parts) if on_gpu else {},
    )


def _sort(trace: Trace) -> _Parts:
    parts = _Parts()
    for event in trace.events:
        if event.ph != "X":
            continue
        kind = event.kind
        if kind == "kernel":
            target = parts.kernels
        elif kind == "cpu_op":
            target = parts.ops
        elif kind in _COPIES:
            target = parts.copies
        elif kind.endswith(("_runtime", "_driver")):
            target = parts.launches
        else:
            continue
        span = event.span
        if span is None:
            parts.skipped += 1
        else:
            target.append((event, span))
    return parts


def _gpu(parts: _Parts, forest: Forest) -> list[Sample]:
    """One sample an op call with all its kernels, and one a kernel that no op is known for."""
    calls = _launch_calls(parts)
    groups: dict[int, tuple[OpNode, Worked, list[tuple[Event, Span]]]] = {}
    samples = []
    for event, span in parts.kernels:
        node = _op_of(event, forest, calls)
        found = _nearest_counted(node, event)
        if found is None:
            samples.append(_alone(event, span, node))
        else:
            owner, worked = found
            groups.setdefault(id(owner), (owner, worked, []))[2].append((event, span))
    samples += [_joined(node, worked, kernels) for node, worked, kernels in groups.values()]
    samples += [_copy(event, span) for event, span in parts.copies]
    return samples


def _launch_calls(parts: _Parts) -> dict[int, tuple[Event, Span]]:
    """The call that launched each kernel, by correlation id."""
    return {
        number: (event, span)
        for event, span in parts.launches
        if event.args and (number := to_int(event.args.correlation)) is not None
    }


def _op_of(event: Event, forest: Forest, calls: dict[int, tuple[Event, Span]]) -> OpNode | None:
    """The op with the kernel's id, else the one that was running when it was launched."""
    if event.args is None:
        return None
    node = forest.by_id.get(event.args.op_id or 0)
    number = to_int(event.args.correlation)
    if node is not None or number not in calls:
        return node
    call, span = calls[number]
    return forest.around(call, span[0])


@lru_cache(maxsize=65536)
def _is_communication(name: str) -> bool:
    return _COMMUNICATION.search(name) is not None


@lru_cache(maxsize=65536)
def _is_tf32(name: str) -> bool:
    return _TF32.search(name) is not None


def _nearest_counted(node: OpNode | None, kernel: Event) -> tuple[OpNode, Worked] | None:
    """The innermost op around a kernel whose work its shapes tell."""
    if _is_communication(str(kernel.name)):
        return None
    tf32 = _is_tf32(str(kernel.name))
    while node is not None:
        worked = op_work(node.name, node.event.args, tf32=tf32)
        if worked is not None:
            return node, worked
        node = node.parent
    return None


def _joined(node: OpNode, worked: Worked, kernels: Sequence[tuple[Event, Span]]) -> Sample:
    main = max(kernels, key=lambda k: k[1][1] - k[1][0])[0]
    more = f" (+{len(kernels) - 1} kernels)" if len(kernels) > 1 else ""
    work, traffic = worked
    return Sample(
        name=f"{main.name}{more}",
        time_s=length(span for _, span in kernels) * _US,
        work=work,
        traffic=traffic,
        group=node.name,
        grid=_shapes(node),
        recorded=_occupancy(main),
    )


def _alone(event: Event, span: Span, node: OpNode | None) -> Sample:
    name = str(event.name)
    if _is_communication(name):
        why = "communication"
    elif node is None:
        why = "no op in the trace launched this kernel (a CUDA graph, or ops were not recorded)"
    elif node.event.args is None or bytes(node.event.args.dims) == b"null":
        why = "the trace has no shapes; record with record_shapes=True"
    else:
        why = f"no formula for {node.name} with what the trace records"
    args = event.args
    return Sample(
        name=name,
        time_s=(span[1] - span[0]) * _US,
        state=Known.MISSING,
        why=why,
        group=node.name if node else "",
        grid=str(args.grid) if args and args.grid else "",
        block=str(args.block) if args and args.block else "",
        recorded=_occupancy(event),
    )


def _copy(event: Event, span: Span) -> Sample:
    return Sample(
        name=str(event.name),
        time_s=(span[1] - span[0]) * _US,
        state=Known.COUNTED,
        group="copies",
        notes=("copies do no work; their bytes go over the link or within the memory",),
    )


def _cpu(forest: Forest) -> list[Sample]:
    """The outermost ops whose work is known, and what is left between them."""
    samples = []
    pending = list(reversed(forest.roots))
    while pending:
        node = pending.pop()
        worked = op_work(node.name, node.event.args)
        if worked is None and node.children:
            pending.extend(reversed(node.children))
            continue
        work, traffic = worked or ((), ())
        samples.append(
            Sample(
                name=node.name,
                time_s=(node.span[1] - node.span[0]) * _US,
                state=Known.COUNTED if worked else Known.MISSING,
                why="" if worked else "no formula for it with what the trace records",
                work=work,
                traffic=traffic,
                group=node.parent.name if node.parent else "",
                grid=_shapes(node),
            )
        )
    return samples


def _shapes(node: OpNode) -> str:
    if node.event.args is None:
        return ""
    return _compact(bytes(node.event.args.dims))


@lru_cache(maxsize=65536)
def _compact(dims: bytes) -> str:
    text = dims.decode("utf-8", "replace")
    return "" if text == "null" else re.sub(r"\s+", "", text)[:_MOST_SHAPES]


def _occupancy(event: Event) -> dict[str, float]:
    value = event.args.occupancy if event.args else None
    return {"occupancy": float(value) / 100} if isinstance(value, int | float) else {}


def _time_of(parts: _Parts) -> dict[str, float]:
    """Seconds by what the devices did; overlaps count once on each device."""
    devices: dict[str, list[tuple[str, Span]]] = {}
    for event, span in (*parts.kernels, *parts.copies):
        where = str(event.args.device) if event.args else ""
        devices.setdefault(where, []).append((_activity(event), span))
    found: dict[str, float] = {}
    for marked in devices.values():
        for name, span_us in _split(marked).items():
            found[name] = found.get(name, 0.0) + span_us * _US
    found["launch calls"] = length(s for e, s in parts.launches if "aunch" in str(e.name)) * _US
    return {name: seconds for name, seconds in found.items() if seconds}


def _activity(event: Event) -> str:
    if event.kind in _COPIES:
        return "copy"
    return "communication" if _is_communication(str(event.name)) else "compute"


def _split(marked: Sequence[tuple[str, Span]]) -> dict[str, float]:
    """Microseconds of one device by activity; communication that nothing hides is exposed."""
    spans = [span for _, span in marked]
    busy = length(spans)
    parts = {
        name: length(span for what, span in marked if what == name)
        for name in ("compute", "communication", "copy")
    }
    parts["exposed communication"] = busy - length(s for v, s in marked if v != "communication")
    parts["idle"] = max(end for _, end in spans) - min(start for start, _ in spans) - busy
    return parts


def _notes(launches: Sequence[Sample], names: Sequence[str], on_gpu: bool) -> list[str]:
    total = sum(s.time_s or 0.0 for s in launches)
    known = sum(s.time_s or 0.0 for s in launches if s.state is Known.COUNTED)
    share = known / total if total else 0.0
    notes = [
        "work and DRAM bytes follow from the shapes of the ops, not from counters: bytes are the "
        f"compulsory ones; they cover {share:.1%} of the time"
    ]
    if len(names) > 1:
        notes.append(f"several devices: {', '.join(names)}")
    if not on_gpu:
        notes.append("the trace has no GPU kernels; times are those of the CPU ops")
    return notes
