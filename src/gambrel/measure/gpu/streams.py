"""Bytes per second: memory, the L2, and the link to the host."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from gambrel.measure.gpu.tasks import GpuTask, TaskVariant
from gambrel.measure.gpu.timing import Bench, Call

#: How often the kernels of the L2 go over the same data in one call.
_TIMES: Final = 64
#: Shares of the L2 that are tried; it may consist of parts that keep copies of each other's data.
_SHARES: Final = (8, 4, 2)
#: Bytes of a transfer to or from the host.
_TRANSFER: Final = 256 << 20

Make = Callable[[Bench, int], Call]


def tasks(bench: Bench) -> Iterator[GpuTask]:
    """Streams through memory, reads and updates inside the L2, transfers."""
    yield from memory(bench)
    yield from level2(bench)
    if bench.host_link:
        yield from transfers(bench)


def lacking(bench: Bench) -> list[str]:
    """What cannot be measured here, and why."""
    found = []
    if not bench.level2_bytes:
        found.append("L2 bandwidth: this version of torch does not know its size")
    if not bench.host_link:
        found.append("host link: the GPU and the processor share their memory")
    return found


def _random(bench: Bench, size: int) -> Any:
    """An array of so many bytes. Zeros are copied faster than any data of a model."""
    import torch

    return torch.rand(size // 4, device=bench.device, dtype=torch.float32)


def memory(bench: Bench) -> Iterator[GpuTask]:
    """Read, copy and triad, each in the ways that torch has, at several sizes."""
    kinds: tuple[tuple[str, tuple[tuple[str, int, Make], ...]], ...] = (
        ("read", (("a sum", 1, _sum), ("a dot product", 2, _dot))),
        ("copy", (("the driver's copy", 2, _copy), ("a kernel's copy", 2, _negate))),
        ("triad", (("a = b + 0.5 * c", 3, _triad),)),
    )
    for mix, made in kinds:
        yield GpuTask(
            resource="DRAM",
            mix=mix,
            unit="B/s",
            ways=tuple(
                _way(bench, note, moved, make, size)
                for size in bench.stream_bytes
                for note, moved, make in made
            ),
        )


def _way(
    bench: Bench, note: str, arrays: int, make: Make, size: int, times: int = 1
) -> TaskVariant:
    return TaskVariant(
        note=note,
        work=float(arrays * size * times),
        holds_bytes=size if times > 1 else arrays * size,
        prepare=lambda: make(bench, size),
        working_set_bytes=size,
    )


def _sum(bench: Bench, size: int) -> Call:
    import torch

    a = _random(bench, size)
    return lambda: torch.sum(a)


def _dot(bench: Bench, size: int) -> Call:
    import torch

    a, b = _random(bench, size), _random(bench, size)
    return lambda: torch.dot(a, b)


def _copy(bench: Bench, size: int) -> Call:
    a, b = _random(bench, size), _random(bench, size)
    return lambda: a.copy_(b)


def _negate(bench: Bench, size: int) -> Call:
    import torch

    a, b = _random(bench, size), _random(bench, size)
    return lambda: torch.neg(b, out=a)


def _triad(bench: Bench, size: int) -> Call:
    import torch

    a, b, c = _random(bench, size), _random(bench, size), _random(bench, size)
    return lambda: torch.add(b, c, alpha=0.5, out=a)


def level2(bench: Bench) -> Iterator[GpuTask]:
    """One kernel that reads the same data again and again, and updates in one graph of kernels."""
    if not bench.level2_bytes:
        return
    sizes = [bench.level2_bytes // share // 1024 * 1024 for share in _SHARES]
    kinds: list[tuple[str, str, int, Make]] = [
        ("read", "sums of one array, many times in one kernel", 1, _reread)
    ]
    if bench.repeated is not None:
        kinds.append(("update", "kernels one after another: their starts are in it", 2, _updated))
    for mix, note, moved, make in kinds:
        yield GpuTask(
            resource="L2",
            mix=mix,
            unit="B/s",
            ways=tuple(_way(bench, note, moved, make, size, _TIMES) for size in sizes),
        )


def _reread(bench: Bench, size: int) -> Call:
    """Sums over rows that are all the same memory."""
    import torch

    rows = _random(bench, size).expand(_TIMES, size // 4)
    out = torch.empty(_TIMES, device=bench.device, dtype=torch.float32)
    return lambda: torch.sum(rows, dim=1, out=out)


def _updated(bench: Bench, size: int) -> Call:
    a = _random(bench, size)
    if bench.repeated is None:
        raise RuntimeError("nothing can repeat a kernel in place")
    return bench.repeated(lambda: a.neg_(), _TIMES)


def transfers(bench: Bench) -> Iterator[GpuTask]:
    """The link to the host, each way."""
    size = min(bench.stream_bytes[0], _TRANSFER)
    for mix, make in (("to device", _to_device), ("from device", _from_device)):
        way = _way(bench, "pinned memory", 1, make, size)
        yield GpuTask(resource="host link", mix=mix, unit="B/s", ways=(way,))


def _to_device(bench: Bench, size: int) -> Call:
    there, here = _both_ends(bench, size)
    return lambda: there.copy_(here, non_blocking=True)


def _from_device(bench: Bench, size: int) -> Call:
    there, here = _both_ends(bench, size)
    return lambda: here.copy_(there, non_blocking=True)


def _both_ends(bench: Bench, size: int) -> tuple[Any, Any]:
    """The same numbers on the device, and in memory of the host that the system may not move."""
    import torch

    there = _random(bench, size)
    pinned = bench.device.startswith("cuda")
    here = torch.empty(there.shape, dtype=there.dtype, device="cpu", pin_memory=pinned)
    return there, here.copy_(there)
