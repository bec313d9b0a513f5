"""The measurement of one device for a fleet: a few rates by one clock, the same on every worker."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any, Final

import numpy as np

from gambrel import roofline
from gambrel.measure.fleet.links import next_gpu
from gambrel.measure.fleet.records import Checkup, FleetFigure
from gambrel.measure.fleet.shares import ThreadTimes
from gambrel.measure.gpu.board import BoardState
from gambrel.measure.machine import load, this_machine
from gambrel.measure.stats import SampledRate, over_rounds

#: Side of the matrices: 3 x 256 KiB, in reach of the L2 of a core; a millisecond at 30 GFLOP/s.
_SIDE: Final = 256
#: Bytes of the arrays that are copied, beyond any last-level cache of one core's share, and of a
#: slice, a millisecond at 16 GB/s.
_COPIED: Final = 64 << 20
_PIECE: Final = 8 << 20
#: What the drivers of NVIDIA, of AMD and of WSL put there.
_GPU_NODES: Final = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")
#: Seconds between two looks at a board while it works.
_LOOK_S: Final = 0.5
#: The least slices that one figure is made of.
_LEAST: Final = 5


@dataclass(frozen=True, kw_only=True)
class FleetEffort:
    """How long a device is measured.

    Attributes:
        seconds: For each figure of a processor.
        quick: Whether GPUs are measured roughly.
        clock: What durations are measured by; the system's monotonic clock.
    """

    seconds: float = 3.0
    quick: bool = True
    clock: Callable[[], float] = time.perf_counter


def devices_here() -> tuple[str, ...]:
    """The processor, and each GPU that torch sees."""
    import importlib.util

    # Loading torch takes seconds, which a node without a GPU is spared.
    nodes = any(Path(node).exists() for node in _GPU_NODES)
    if not nodes or importlib.util.find_spec("torch") is None:
        return ("cpu",)
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return ("cpu", *(f"cuda:{i}" for i in range(count)))


def checkup(device: str, effort: FleetEffort, worker: str = "") -> Checkup:
    """Measures a device of this process's machine.

    Args:
        device: ``cpu`` or ``cuda:N``.
        effort: How long.
        worker: What to call the worker; the host by default.
    """
    host = socket.gethostname()
    named: dict[str, Any] = {"worker": worker or host, "host": host, "device": device}
    began = effort.clock()
    board, stolen = None, None
    if device == "cpu":
        sku = this_machine().name
        figures, spent = _processor(effort)
        figures, stolen = (*figures, *_shares(spent)), spent.stolen
    else:
        sku, figures, board = _gpu(device, effort)
    return Checkup(
        **named,
        sku=sku,
        figures=figures,
        board=board,
        claimed_s=effort.clock() - began,
        load=load(),
        stolen=stolen,
    )


def _shares(spent: ThreadTimes) -> Iterator[FleetFigure]:
    """What of its time a thread had a processor, which a rate of short slices does not show."""
    if spent.allowed is not None:
        yield FleetFigure(name="processor allowed", value=spent.allowed, unit="1")
    if spent.wall > 0:
        used = min(1.0, roofline.rate(spent.used, spent.wall))
        yield FleetFigure(name="processor time", value=used, unit="1")


def clocks(effort: FleetEffort) -> tuple[float, float]:
    """What this worker's clocks say now: the one that durations are measured by, and the wall's."""
    return effort.clock(), time.time()


def _processor(effort: FleetEffort) -> tuple[tuple[FleetFigure, ...], ThreadTimes]:
    """A GEMM by the BLAS of numpy, and copies in main memory, on one core.

    Slices take about a millisecond, less than a scheduler gives at once: those that others
    interrupt are few, and the faster half of them has none. What the thread got of a processor
    meanwhile comes with the rates; all that it does is compute.
    """
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((_SIDE, _SIDE)).astype(np.float32) for _ in range(2))
    c = np.empty_like(a)
    source = np.zeros((_COPIED // _PIECE, _PIECE >> 3))
    target = np.ones_like(source)
    pieces = cycle(range(len(source)))

    def copy() -> None:
        piece = next(pieces)
        np.copyto(target[piece], source[piece])

    gemm = partial(np.matmul, a, b, out=c)
    with _one_thread():
        gemm()
        for _ in source:
            copy()  # so that all pages are there
        before = ThreadTimes.now(effort.clock)
        figures = (
            _rate("gemm fp32", "FLOP/s", 2.0 * _SIDE**3, gemm, effort),
            _rate("copy", "B/s", 2.0 * _PIECE, copy, effort),
        )
        return figures, ThreadTimes.now(effort.clock).since(before)


def _one_thread() -> AbstractContextManager[object]:
    """Keeps BLAS to this thread, where the library for that is installed."""
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        return nullcontext()
    limits: AbstractContextManager[object] = threadpool_limits(1, "blas")
    return limits


def _rate(
    name: str, unit: str, work: float, run: Callable[[], object], effort: FleetEffort
) -> FleetFigure:
    for _ in range(_LEAST):
        run()
    end = effort.clock() + effort.seconds
    rates: list[float] = []
    while len(rates) < _LEAST or effort.clock() < end:
        began = effort.clock()
        run()
        rates.append(roofline.rate(work, max(effort.clock() - began, 1e-9)))
    whole = over_rounds([SampledRate(value=rate, median=rate, samples=1) for rate in rates])
    return FleetFigure(name=name, value=whole.value, unit=unit, spread=whole.spread)


def _gpu(
    device: str, effort: FleetEffort
) -> tuple[str, tuple[FleetFigure, ...], BoardState | None]:
    """The ceilings of `gambrel peaks`, with what the driver says of the board meanwhile."""
    import torch

    from gambrel.measure.gpu.board import board_reader, over
    from gambrel.measure.gpu.telemetry import watched
    from gambrel.measure.peaks import measure_peaks
    from gambrel.measure.peaks import quick as roughly

    index = int(device.partition(":")[2] or 0)
    level = roughly(device) if effort.quick else {"steps": 20, "warmup": 5}
    read = board_reader(str(getattr(torch.cuda.get_device_properties(index), "uuid", "")))
    with watched(read, _LOOK_S) as seen:
        found = measure_peaks(
            device,
            steps=level["steps"],
            warmup=level["warmup"],
            rounds=level.get("rounds"),
            refresh=True,
            cache=False,
        ).survey
        beside = next_gpu(index, effort.clock)
    best: dict[str, FleetFigure] = {}
    for m in found.measurements:
        name = " ".join(filter(None, (m.resource, m.mix, m.dtype)))
        if name not in best or best[name].value < m.value:
            best[name] = FleetFigure(name=name, value=m.value, unit=m.unit, spread=m.spread)
    figures = (*best.values(), *((beside,) if beside is not None else ()))
    return found.name, figures, over(seen)
