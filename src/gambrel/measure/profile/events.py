"""From the record of torch's profiler to the calls of each step, and what the device did in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gambrel.measure.profile.join import ProfiledCall, short_name

#: Marks a step in the profiler's record.
STEP: Final = "gambrel.step"
#: torch's number for what a program marks itself (``record_function``). The profiler shows such a
#: mark on the device as well, as long as all that ran inside: that is no kernel.
_MARKED: Final = 7
#: Starts many kernels at once, which have names of their own.
_GRAPH: Final = "GraphLaunch"
#: Waiting for a device is recorded on the device by some versions.
_WAITS: Final = frozenset({"Context Sync", "Stream Sync", "Event Sync", "Stream Wait Event"})


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceTime:
    """What a device did in one step.

    Attributes:
        kernels: Kernels, copies and fills.
        sum_s: Their durations together: what runs side by side counts as often as it runs.
        busy_s: Time in which at least one ran.
        span_s: From the first one's begin to the last one's end.
    """

    kernels: int
    sum_s: float
    busy_s: float
    span_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfiledStep:
    """One profiled step.

    Attributes:
        calls: The outermost calls, and kernels that no call started, in order.
        device: What the device did; None on a CPU.
    """

    calls: tuple[ProfiledCall, ...]
    device: DeviceTime | None = None


def steps_of(events: Iterable[Any], *, gpu: bool) -> list[ProfiledStep]:
    """The steps of a record.

    Backward runs in a thread of its own where a GPU is at work: calls of other threads belong to
    the step in whose time they begin. A kernel belongs to the step in whose time it ran, because
    every step ends with a wait for the device.

    Args:
        events: As torch's profiler gives them (``FunctionEvent``).
        gpu: Take the seconds of the kernels that a call started, joined by correlation id, rather
            than those of the call.
    """
    every = list(events)
    host = [e for e in every if _on_host(e)]
    marks = sorted((e for e in host if e.name == STEP), key=_start)
    threads = {mark.thread for mark in marks}
    others = sorted(
        (e for e in host if e.cpu_parent is None and e.thread not in threads), key=_start
    )
    roots = [sorted([*m.cpu_children, *_within(m, others)], key=_start) for m in marks]
    if not gpu:
        return [ProfiledStep(calls=tuple(_call(r, _host_s) for r in found)) for found in roots]
    kernels = _kernels(every, host)
    return [
        _on_device(found, _within(mark, kernels, at=_middle))
        for mark, found in zip(marks, roots, strict=True)
    ]


def _on_device(roots: Sequence[Any], kernels: Sequence[Any]) -> ProfiledStep:
    """A step whose calls take the time of their kernels; those of no call stand for themselves."""
    started = Counter(kernel for root in roots for kernel in _started(root))
    loose = []
    for kernel in kernels:
        key = (kernel.name, round(_length(kernel), 3))
        if started[key] > 0:
            started[key] -= 1
        else:
            loose.append(
                (_start(kernel), ProfiledCall(name=kernel.name, time_s=_length(kernel) * 1e-6))
            )
    calls = [(_start(root), _call(root, _own_kernels_s, add=True)) for root in roots]
    ordered = sorted([*calls, *loose], key=lambda pair: pair[0])
    return ProfiledStep(calls=tuple(c for _, c in ordered), device=device_time(kernels))


def device_time(kernels: Sequence[Any]) -> DeviceTime:
    """Sums and the union of the intervals of kernels, in any order."""
    busy = end = 0.0
    first = min((_start(k) for k in kernels), default=0.0)
    end = first
    for kernel in sorted(kernels, key=_start):
        begin, stop = kernel.time_range.start, kernel.time_range.end
        busy += max(0.0, stop - max(begin, end))
        end = max(end, stop)
    return DeviceTime(
        kernels=len(kernels),
        sum_s=sum(map(_length, kernels)) * 1e-6,
        busy_s=busy * 1e-6,
        span_s=(end - first) * 1e-6,
    )


def _kernels(events: Sequence[Any], host: Sequence[Any]) -> list[Any]:
    """What ran on the device: marks of the program and waits are no kernels."""
    marks = {e.name for e in host if _marked(e)}
    found = [
        e
        for e in events
        if not _on_host(e)
        and not getattr(e, "is_user_annotation", False)
        and e.name not in marks
        and e.name not in _WAITS
    ]
    return sorted(found, key=_start)


def _started(event: Any) -> Iterator[tuple[str, float]]:
    """Name and microseconds of every kernel of a call and the calls inside."""
    for kernel in _own(event):
        yield kernel.name, round(kernel.duration, 3)
    for child in event.cpu_children:
        yield from _started(child)


def _own(event: Any) -> list[Any]:
    marked = _marked(event)
    return [k for k in event.kernels if not (marked and k.name == event.name)]


def _marked(event: Any) -> bool:
    return getattr(event, "scope", 0) == _MARKED or bool(getattr(event, "is_user_annotation", 0))


def _on_host(event: Any) -> bool:
    return str(event.device_type).endswith("CPU")


def _start(event: Any) -> float:
    return float(event.time_range.start)


def _middle(event: Any) -> float:
    return float(event.time_range.start + event.time_range.end) / 2


def _length(event: Any) -> float:
    return float(event.time_range.end - event.time_range.start)


def _within(mark: Any, events: Iterable[Any], at: Callable[[Any], float] = _start) -> list[Any]:
    begin, end = mark.time_range.start, mark.time_range.end
    return [e for e in events if begin <= at(e) < end]


def _call(event: Any, seconds: Callable[[Any], float], *, add: bool = False) -> ProfiledCall:
    """A call with those inside; with ``add`` the seconds are its own beside theirs."""
    inside = tuple(_call(c, seconds, add=add) for c in sorted(event.cpu_children, key=_start))
    time_s = seconds(event) + (sum(c.time_s for c in inside) if add else 0.0)
    if add and any(_GRAPH in c.name for c in inside):
        inside += tuple(ProfiledCall(name=k.name, time_s=k.duration * 1e-6) for k in _own(event))
    return ProfiledCall(name=short_name(event.name), time_s=time_s, children=inside)


def _host_s(event: Any) -> float:
    return float(event.time_range.elapsed_us()) * 1e-6


def _own_kernels_s(event: Any) -> float:
    return float(sum(k.duration for k in _own(event))) * 1e-6
