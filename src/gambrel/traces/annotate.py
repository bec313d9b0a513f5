"""A measured Chrome trace with what each op could be: a row of its own, and counters.

The events that were recorded are copied byte by byte; what is added stands in front of them as a
process of its own, so that viewers show both and nothing of the recording is lost.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from gambrel.device.fastest import fastest, fastest_memory
from gambrel.device.model import Device
from gambrel.errors import FileFormatError
from gambrel.fileio import replace_file
from gambrel.roofline import rate, ratio, seconds
from gambrel.traces.kineto.columns import Call
from gambrel.traces.kineto.stream import Stream, unpacked
from gambrel.traces.kineto.work import op_work

#: Of the process that is added; recorded ones have numbers of the system.
_PID: Final = 9_000_001
_LIST: Final = re.compile(rb'"traceEvents"\s*:\s*\[')
_KERNELS: Final = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
_MICRO: Final = 1e-6
#: Microseconds without a kernel after which the counters go to zero.
_GAP: Final = 1.0
_COUNTERS: Final = (
    b'{"ph":"C","pid":%d,"name":"achieved FLOP/s","ts":%.3f,"args":{"value":%.6g}},'
    b'{"ph":"C","pid":%d,"name":"achieved byte/s","ts":%.3f,"args":{"value":%.6g}}'
)
#: Of the roof, name of the bound.
_BOUNDS: Final = ("compute", "memory")


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotated:
    """What was added to a trace.

    Attributes:
        path: Where it was written.
        spans: Ops or kernels with work.
        without: Those whose work is not known.
    """

    path: Path
    spans: int
    without: int


def annotate(source: Path, target: Path, device: Device | None = None) -> Annotated:
    """Writes a trace with FLOPs, bytes, share of the speed of light and bound of each op.

    Args:
        source: A trace of torch.profiler, recorded with shapes; compressed or not.
        target: A new ``.json``.
        device: Whose roofs count; None leaves shares out.

    Raises:
        FileFormatError: The source is no trace, or a list without an object around it.
    """
    roofs = _Roofs(device)
    made = [msgspec.json.encode(_named("process_name", f"gambrel{roofs.title}"))]
    timed = list(_timed(source))
    spans = 0
    for at, (span, call) in enumerate(timed):
        after = timed[at + 1][0][0] if at + 1 < len(timed) else math.inf
        added = roofs.events(span, call, idle=after > span[1] + _GAP)
        spans += bool(added)
        if added:
            made.append(added)
    if not spans:
        raise FileFormatError(f"{source}: no op of known work; record with record_shapes=True.")
    replace_file(target, b"".join(_inserted(source, b",".join(made))))
    return Annotated(path=target, spans=spans, without=len(timed) - spans)


def _timed(source: Path) -> Iterator[tuple[tuple[float, float], Call]]:
    """Time of each kernel, or on a processor of each op that holds no other, and its op's call."""
    calls: dict[int, Call] = {}
    ops: list[tuple[float, float, Any, Call]] = []
    kernels: list[tuple[float, float, int]] = []
    for events in Stream(source).pieces():
        for event in events:
            args, span = event.args, event.span
            if args is None or span is None:
                continue
            if event.kind == "cpu_op":
                call = Call(str(event.name), bytes(args.dims), bytes(args.types),
                            bytes(args.concrete))  # fmt: skip
                ops.append((*span, event.tid, call))
                if isinstance(args.external_id, int):
                    calls[args.external_id] = call
            elif event.kind in _KERNELS and isinstance(args.external_id, int):
                kernels.append((*span, args.external_id))
    if kernels:
        yield from (((a, b), calls[i]) for a, b, i in sorted(kernels) if i in calls)
        return
    yield from _outermost(ops)


def _outermost(
    ops: list[tuple[float, float, Any, Call]],
) -> Iterator[tuple[tuple[float, float], Call]]:
    """Ops whose work is known, without those inside of one of these."""
    until: dict[Any, float] = {}
    for start, end, thread, call in sorted(ops, key=lambda op: (op[0], -op[1])):
        if start >= until.get(thread, 0.0) and op_work(call) is not None:
            until[thread] = end
            yield (start, end), call


@dataclass(frozen=True, slots=True)
class _Asked:
    """What every call of an op with some shapes asks for, ready to be written."""

    name: bytes
    flops: int
    moved: int
    light_s: float | None
    args: bytes


class _Roofs:
    """What a device allows, as events."""

    def __init__(self, device: Device | None) -> None:
        self._device = device
        self.title = "" if device is None else f": share of the speed of light of {device.id}"
        memory = None if device is None else fastest_memory(device)
        self._byte_per_s = None if memory is None else memory.byte_per_s
        self._rates: dict[tuple[str, str], float | None] = {}
        self._asked: dict[Call, _Asked | None] = {}

    def events(self, span: tuple[float, float], call: Call, *, idle: bool) -> bytes:
        """A slice and counters of one op as JSON; empty where its work is not known.

        Args:
            span: Begin and end, µs.
            call: The op.
            idle: Whether nothing follows at once, so that the counters go to zero.
        """
        if call not in self._asked:
            self._asked[call] = self._ask(call)
        known, time_s = self._asked[call], (span[1] - span[0]) * _MICRO
        if known is None or time_s <= 0:
            return b""
        share = None if known.light_s is None else ratio(known.light_s, time_s)
        shown = b"" if share is None else b" %d%%" % round(share * 100)
        said = b"null" if share is None else b"%.6g" % share
        slice_ = (
            b'{"ph":"X","pid":%d,"tid":1,"cat":"gambrel","name":"%b%b","ts":%.3f,"dur":%.3f,'
            b'"args":{"sol_share":%b,%b}}'
        ) % (_PID, known.name, shown, span[0], span[1] - span[0], said, known.args)
        ends = [(span[0], rate(known.flops, time_s), rate(known.moved, time_s))]
        if idle:
            ends.append((span[1], 0.0, 0.0))
        return b",".join([slice_, *(_COUNTERS % (_PID, t, f, _PID, t, b) for t, f, b in ends)])

    def _ask(self, call: Call) -> _Asked | None:
        found = op_work(call)
        if found is None:
            return None
        flops = sum(w.flops for w in found[0])
        moved = sum(t.traffic_bytes or 0 for t in found[1])
        light_s, bound = self._light(found[0], moved)
        args = {"flops": flops, "traffic_bytes": moved, "bound": bound}
        return _Asked(
            name=msgspec.json.encode(call[0])[1:-1],
            flops=flops,
            moved=moved,
            light_s=light_s,
            args=msgspec.json.encode(args)[1:-1],
        )

    def _light(self, work: Any, moved: int) -> tuple[float | None, str | None]:
        """The op's own speed of light and the resource that sets it."""
        if self._device is None or self._byte_per_s is None:
            return None, None
        times = [0.0, float(seconds(moved, self._byte_per_s))]
        for one in work:
            key = one.work_class, one.dtype
            if key not in self._rates:
                roof = fastest(self._device, *key)
                self._rates[key] = None if roof is None else roof.flop_per_s
            known = self._rates[key]
            times[0] = max(times[0], float(seconds(one.flops, known)) if known else 0.0)
        return max(times), _BOUNDS[times.index(max(times))]


def _named(kind: str, name: str) -> dict[str, Any]:
    return {"ph": "M", "pid": _PID, "tid": 1, "name": kind, "args": {"name": name}}


def _inserted(source: Path, events: bytes) -> Iterator[bytes]:
    """The file with events in front of its own."""
    blocks = unpacked(source)
    held = b""
    for block in blocks:
        held += block
        found = _LIST.search(held)
        if found:
            yield held[: found.end()]
            yield events
            rest = held[found.end() :]
            yield b"" if rest.lstrip()[:1] == b"]" else b","
            yield rest
            yield from blocks
            return
    raise FileFormatError(f"{source}: a trace without 'traceEvents' cannot be annotated.")
