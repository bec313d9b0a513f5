"""Profiles of Triton's Proton: a tree of scopes and kernels, as hatchet reads it.

Kernels are nodes with a time. Work is what the program told Proton, at the kernel (launch metadata)
or at a scope around kernels (``proton.scope("gemm", metrics={"flops16": ...})``); a scope with work
is one sample then, with the time of the kernels in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from gambrel.analysis.samples import Known, MeasuredTraffic, MeasuredWork, Sample, Samples
from gambrel.errors import FileFormatError
from gambrel.traces.ncu.attributes import reckon
from gambrel.traces.source import read_bytes

FORMAT: Final = "Proton profile"
_TIME: Final = {"time (ns)": 1e-9, "time (us)": 1e-6, "time (ms)": 1e-3, "time (s)": 1.0}
#: Operand width that a metric names; ``flops`` alone does not tell it.
_FLOPS: Final = {"flops": "any", "flops8": "fp8", "flops16": "fp16", "flops32": "fp32",
                 "flops64": "fp64"}  # fmt: skip
_HOW: Final = "given by the program to Proton"
#: Kernels of Proton's own hooks, which compute the metadata of a launch.
_OWN: Final = "__proton_launch_metadata"
_LARGEST: Final = 1e30
_DEEPEST: Final = 400
_ATTRIBUTES: Final = {"num_sms": "units", "clock_rate": "clock",
                      "memory_clock_rate": "memory clock", "bus_width": "bus"}  # fmt: skip


class _Frame(msgspec.Struct):
    name: str = ""


class _Node(msgspec.Struct):
    frame: _Frame = msgspec.field(default_factory=_Frame)
    metrics: dict[str, Any] = {}
    children: list[_Node] = []


def is_proton(text: str) -> bool:
    """Whether a file begins like a tree of hatchet."""
    start = text.lstrip("\ufeff \r\n\t")
    return start.startswith("[") and bool(
        re.match(r'\[\s*\{\s*"(?:children|frame|metrics)"\s*:', start)
    )


def read(path: Path) -> Samples:
    """Reads ``proton.hatchet``.

    Raises:
        FileFormatError: Not readable, cut off, or without a kernel's time.
    """
    try:
        parts = msgspec.json.decode(read_bytes(path), type=list[dict[str, msgspec.Raw]])
        trees = [_tree(part) for part in parts if "children" in part]
        devices = _devices([part for part in parts if "children" not in part])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise FileFormatError(f"{path}: no complete profile of Proton: {error}.") from None
    launches = [sample for tree in trees for sample in _samples(tree, ())]
    if not launches:
        raise FileFormatError(
            f"{path}: no kernel with a time; of an instrumented or CPU-only run there is none."
        )
    used = {s.origin for s in launches}
    if len(used) == 1:
        launches = [msgspec.structs.replace(s, origin="") for s in launches]
    return Samples(
        format=FORMAT,
        sources=(str(path),),
        launches=tuple(launches),
        implied=_implied(devices, used),
        notes=("work and bytes are what the program told Proton; kernels without have times only",),
    )


def _tree(part: dict[str, msgspec.Raw]) -> _Node:
    return msgspec.json.decode(msgspec.json.encode(part), type=_Node)


def _samples(node: _Node, around: tuple[str, ...]) -> Iterator[Sample]:
    """A sample for each kernel, or for each scope that has the work of its kernels."""
    if len(around) > _DEEPEST or node.frame.name == _OWN:
        return
    name = node.frame.name
    here = around if name in ("", "ROOT") else (*around, name)
    inner = [s for child in node.children for s in _samples(child, here)]
    time_s = _time(node.metrics)
    if time_s:
        yield _sample(name, node.metrics, time_s, _count(node.metrics), around)
    elif inner and _work(node.metrics) and not any(s.work for s in inner):
        times = [s.time_s or 0.0 for s in inner]
        counts = _count(node.metrics) or 1
        yield msgspec.structs.replace(
            _sample(name, node.metrics, sum(times), counts, around),
            origin=inner[0].origin,
            notes=(f"{len(inner)} kernels",),
        )
        return
    yield from inner


def _sample(
    name: str, metrics: dict[str, Any], time_s: float, count: int, around: tuple[str, ...]
) -> Sample:
    work, size = _work(metrics), _amount(metrics.get("bytes"))
    kind, number = metrics.get("device_type", ""), metrics.get("device_id", "")
    return Sample(
        name=name,
        count=max(count, 1),
        time_s=time_s,
        state=Known.COUNTED if work else Known.MISSING,
        why="" if work else "the program gave Proton no FLOP of this kernel",
        work=work,
        traffic=()
        if size is None
        else (MeasuredTraffic(level="DRAM", traffic_bytes=round(size), how=_HOW),),
        range=" / ".join(around),
        origin=f"{kind} {number}".strip(),
    )


def _time(metrics: dict[str, Any]) -> float:
    values = [(_amount(metrics.get(name)), unit) for name, unit in _TIME.items()]
    return next((value * unit for value, unit in values if value), 0.0)


def _count(metrics: dict[str, Any]) -> int:
    return round(_amount(metrics.get("count")) or 0)


def _amount(value: Any) -> float | None:
    """A number that a metric can be; None for anything else."""
    good = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if good and 0 <= value <= _LARGEST else None


def _work(metrics: dict[str, Any]) -> tuple[MeasuredWork, ...]:
    found = [(dtype, _amount(metrics.get(name))) for name, dtype in _FLOPS.items()]
    return tuple(
        MeasuredWork(work_class="matrix", dtype=dtype, flops=round(flops), how=_HOW)
        for dtype, flops in found
        if flops
    )


def _devices(parts: list[dict[str, msgspec.Raw]]) -> dict[str, dict[str, Any]]:
    """Attributes of each GPU, by maker and number."""
    return {
        f"{kind} {number}": values
        for part in parts
        for kind, raw in part.items()
        for number, values in msgspec.json.decode(raw, type=dict[str, dict[str, Any]]).items()
    }


def _implied(devices: dict[str, dict[str, Any]], used: set[str]) -> Any:
    """Roofs that follow from the attributes of the one NVIDIA GPU that was used."""
    mine = [values for name, values in devices.items() if not used - {""} or name in used]
    arch = str(mine[0].get("arch", "")) if len(mine) == 1 else ""
    if not arch.isdecimal() or len(arch) < 2:
        return None
    known = {what: _amount(mine[0].get(name)) for name, what in _ATTRIBUTES.items()}
    attributes = {what: value for what, value in known.items() if value}
    return reckon(attributes, None, f"{arch[:-1]}.{arch[-1]}", "")
