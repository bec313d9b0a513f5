"""How fast two devices talk: an all-reduce of two workers, and copies between neighbouring GPUs.

Every worker is measured with the next one and with the one before it, and its figure is the better
of the two: a bad link of its own slows both, a neighbour's only one.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from itertools import count
from typing import Any, Final, TypeVar

from gambrel import roofline
from gambrel.errors import require
from gambrel.measure.fleet.records import FleetFigure
from gambrel.measure.stats import SampledRate, over_rounds

T = TypeVar("T")
#: Bytes that are reduced at once: beyond what latency rules.
MESSAGE_BYTES: Final = 16 << 20
#: Bytes of a copy between GPUs, and how many copies make a slice.
_COPY_BYTES: Final = 256 << 20
_COPIES: Final = 8
_SLICES: Final = 5
#: Seconds after which a partner counts as absent.
_PATIENCE_S: Final = 60.0


def pairs(names: Sequence[T]) -> list[list[tuple[T, T]]]:
    """Neighbours in a ring, in rounds in which nobody has two partners.

    Two names make one pair, an odd ring needs a third round for its last pair.
    """
    size = len(names)
    if size < 2:
        return []
    every = [(names[i], names[(i + 1) % size]) for i in range(size if size > 2 else 1)]
    last = [every.pop()] if size > 2 and size % 2 else []
    return [group for group in (every[::2], every[1::2], last) if group]


def free_port() -> int:
    """A TCP port of this machine that nobody uses now."""
    with socket.socket() as one:
        one.bind(("", 0))
        return int(one.getsockname()[1])


def all_reduce(rank: int, address: str, port: int, seconds: float, device: str) -> FleetFigure:
    """The bus bandwidth of an all-reduce between this worker and its partner.

    With two ranks every byte crosses the link once in each direction, so it is bytes over time
    (https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md).

    Args:
        rank: 0 for the worker that listens, 1 for the other.
        address: Of the first.
        port: Where it listens.
        seconds: For the measurement.
        device: ``cpu`` (gloo) or ``cuda:N`` (nccl).

    Raises:
        MissingExtraError: torch is not installed.
        RuntimeError: The partner does not answer.
    """
    require("torch", "torch", "an all-reduce")
    import torch
    from torch import distributed

    backend = "gloo" if device == "cpu" else "nccl"
    with _interface(address, port):
        distributed.init_process_group(
            backend,
            init_method=f"tcp://{address}:{port}",
            rank=rank,
            world_size=2,
            timeout=timedelta(seconds=_PATIENCE_S),
        )
        try:
            data = torch.ones(MESSAGE_BYTES >> 2, device=device)
            return _timed(data, seconds, backend)
        finally:
            distributed.destroy_process_group()


def _timed(data: Any, seconds: float, backend: str) -> FleetFigure:
    import torch
    from torch import distributed

    def reduce() -> float:
        began = time.perf_counter()
        distributed.all_reduce(data)
        if data.is_cuda:
            torch.cuda.synchronize(data.device)
        return time.perf_counter() - began

    # Both ranks must do the same number, so the first one says how many.
    first = min(reduce(), reduce())
    wanted = max(_SLICES, min(1000, int(roofline.rate(seconds, max(first, 1e-6)))))
    times = torch.tensor([wanted], device=data.device)
    distributed.broadcast(times, src=0)
    rates = [roofline.rate(MESSAGE_BYTES, max(reduce(), 1e-9)) for _ in range(int(times.item()))]
    return _figure(f"all-reduce {backend}", rates)


def _figure(name: str, rates: Sequence[float]) -> FleetFigure:
    whole = over_rounds([SampledRate(value=rate, median=rate, samples=1) for rate in rates])
    return FleetFigure(name=name, value=whole.value, unit="B/s", spread=whole.spread)


@contextmanager
def _interface(address: str, port: int) -> Iterator[None]:
    """Makes gloo use the network interface by which the partner is reached."""
    name = _interface_of(_own_address(address, port))
    before = os.environ.get("GLOO_SOCKET_IFNAME")
    if name and before is None:
        os.environ["GLOO_SOCKET_IFNAME"] = name
    try:
        yield
    finally:
        if before is None:
            os.environ.pop("GLOO_SOCKET_IFNAME", None)


def _own_address(address: str, port: int) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.connect((address, port))  # sends nothing
        return str(one.getsockname()[0])


def _interface_of(address: str) -> str:
    import psutil  # comes with dask.distributed, without which nobody asks

    for name, known in psutil.net_if_addrs().items():
        if any(one.address == address for one in known):
            return str(name)
    return ""


def next_gpu(index: int, clock: Callable[[], float] = time.perf_counter) -> FleetFigure | None:
    """Copies from a GPU to the next one of the same worker: NVLink, or PCIe where there is none.

    Args:
        index: Of the GPU.
        clock: What durations are measured by.

    Returns:
        None where the worker has one GPU.
    """
    import torch

    size = torch.cuda.device_count()
    if size < 2:
        return None
    other = (index + 1) % size
    source = torch.empty(_COPY_BYTES, dtype=torch.uint8, device=f"cuda:{index}")
    target = torch.empty(_COPY_BYTES, dtype=torch.uint8, device=f"cuda:{other}")
    rates = []
    for attempt in count():
        began = clock()
        for _ in range(_COPIES):
            target.copy_(source, non_blocking=True)
        torch.cuda.synchronize(index)
        torch.cuda.synchronize(other)
        if attempt:  # the first one opens the way between the two
            rates.append(roofline.rate(_COPIES * _COPY_BYTES, max(clock() - began, 1e-9)))
        if len(rates) == _SLICES:
            return _figure("copy to the next GPU", rates)
    return None
