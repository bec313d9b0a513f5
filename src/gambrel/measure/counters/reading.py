"""Counts what a call does: FLOP of this process, bytes of the machine's memory controllers."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import msgspec

from gambrel.measure.counters.events import CounterEvent, Unavailable, find

#: Number of the system call perf_event_open. Source: the kernel's tables of system calls.
_CALLS: Final = {"x86_64": 298, "aarch64": 241, "ppc64le": 319, "riscv64": 241}
#: struct perf_event_attr of version 5 (linux/perf_event.h): type, size, config, period, sample
#: type, read format, flags; the rest is zero.
_SIZE: Final = 112
_FORMAT: Final = "<IIQQQQQ"
#: Read format: with the time enabled and the time running, to scale counters that took turns.
_TIMES: Final = 0b11
#: Flag exclude_hv with exclude_kernel: what paranoid level 2 allows.
_USER_ONLY: Final = 1 << 5 | 1 << 6

#: Opens a counter: (event, thread or -1) → file descriptor.
Open = Callable[[CounterEvent, int], int]


class CounterReading(msgspec.Struct, frozen=True, kw_only=True):
    """What counters saw of some calls, for one of them.

    Attributes:
        flops: FLOP; None where it cannot be counted, never a zero for that.
        traffic_bytes: Bytes read and written by the memory controllers, the rest of the machine
            included; None as above.
        missing: What could not be counted, with the reason.
    """

    flops: float | None = None
    traffic_bytes: float | None = None
    missing: tuple[str, ...] = ()


def count(
    call: Callable[[], Any],
    times: int = 1,
    *,
    found: tuple[tuple[CounterEvent, ...], tuple[CounterEvent, ...], tuple[Unavailable, ...]]
    | None = None,
    opened: Open | None = None,
) -> CounterReading:
    """Runs a call under counters.

    Args:
        call: What to count.
        times: How often; the figures are those of one.
        found: Counters as `find` gives them; None looks for them.
        opened: Opens one; None asks the kernel.
    """
    flops, traffic, missing = find() if found is None else found
    said = [str(m) for m in missing]
    open_ = _open if opened is None else opened
    groups = (("FLOP", flops), ("bytes", traffic))
    counters: dict[str, list[tuple[CounterEvent, int]]] = {}
    try:
        for what, events in groups:
            try:
                counters[what] = _open_all(events, open_)
            except OSError as error:
                said.append(f"{what}: {_explained(error)}")
        if not any(counters.values()):
            return CounterReading(missing=tuple(said))
        before = _sums(counters)
        for _ in range(times):
            call()
        after = _sums(counters)
    finally:
        for pairs in counters.values():
            for _, descriptor in pairs:
                os.close(descriptor)
    used = {what: (after[what] - before[what]) / times for what, c in counters.items() if c}
    return CounterReading(
        flops=used.get("FLOP"), traffic_bytes=used.get("bytes"), missing=tuple(said)
    )


def _open_all(events: Iterable[CounterEvent], open_: Open) -> list[tuple[CounterEvent, int]]:
    """All counters, each for every thread of this process; none where one cannot be opened."""
    found: list[tuple[CounterEvent, int]] = []
    try:
        for event in events:
            for thread in (-1,) if event.cpu is not None else _threads():
                found.append((event, open_(event, thread)))
    except OSError:
        for _, descriptor in found:
            os.close(descriptor)
        raise
    return found


def _threads() -> list[int]:
    """Threads of this process; workers of a library were started long before."""
    try:
        return sorted(int(p.name) for p in Path("/proc/self/task").iterdir())
    except OSError:
        return [0]


def _sums(counters: dict[str, list[tuple[CounterEvent, int]]]) -> dict[str, float]:
    return {
        what: sum(event.factor * _read(descriptor) for event, descriptor in pairs)
        for what, pairs in counters.items()
    }


def _read(descriptor: int) -> float:
    """A count, scaled up where the counter ran for a part of the time only."""
    value, enabled, running = struct.unpack("<QQQ", os.read(descriptor, 24))
    return value * enabled / running if running else 0.0


def _open(event: CounterEvent, thread: int) -> int:
    number = _CALLS.get(platform.machine())
    if number is None or platform.system() != "Linux":
        raise OSError(errno.ENOSYS, f"no perf events on {platform.system()} {platform.machine()}")
    flags = 0 if event.cpu is not None else _USER_ONLY
    fields = struct.pack(_FORMAT, event.kind, _SIZE, event.config, 0, 0, _TIMES, flags)
    attributes = ctypes.create_string_buffer(fields.ljust(_SIZE, b"\0"), _SIZE)
    libc = ctypes.CDLL(None, use_errno=True)
    cpu = -1 if event.cpu is None else event.cpu
    descriptor = libc.syscall(
        ctypes.c_long(number),
        attributes,
        ctypes.c_int(thread),
        ctypes.c_int(cpu),
        ctypes.c_int(-1),
        ctypes.c_ulong(0),
    )
    if descriptor < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return int(descriptor)


def _explained(error: OSError) -> str:
    if error.errno in (errno.EACCES, errno.EPERM):
        return "the kernel does not allow it: sysctl kernel.perf_event_paranoid=1, or run as root"
    if error.errno in (errno.ENOENT, errno.EOPNOTSUPP, errno.ENODEV, errno.EINVAL):
        return "the processor's counters are not there (in a virtual machine often hidden)"
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return "too many open files for a counter in every thread: ulimit -n"
    return error.strerror or str(error)
