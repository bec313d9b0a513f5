"""The measurement of one device for a fleet: a few rates by one clock, the same on every worker."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from gambrel import roofline
from gambrel.measure.fleet.records import Checkup, FleetFigure
from gambrel.measure.machine import this_machine
from gambrel.measure.stats import Figure, over_rounds

#: Side of the matrices: 3 x 4 MiB, beyond the L2 of a core, in reach of a last-level cache.
_SIDE: Final = 1024
#: Bytes of the arrays that are copied: beyond any last-level cache of one core's share.
_COPIED: Final = 64 << 20
#: What the drivers of NVIDIA, of AMD and of WSL put there.
_GPU_NODES: Final = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")
#: Slices that one figure is made of.
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
    began, used = effort.clock(), _used()
    if device == "cpu":
        sku, figures = this_machine().name, _processor(effort)
        state: dict[str, str] = {}
    else:
        sku, figures, state = _gpu(device, effort)
    spent = effort.clock() - began
    return Checkup(
        **named,
        sku=sku,
        figures=figures,
        state=state,
        claimed_s=spent,
        load=_load(),
        stolen=max(0.0, 1 - (_used() - used) * (1 / spent)) if device == "cpu" and spent else None,
    )


def _used() -> float:
    """Seconds of a processor that this thread has used."""
    return time.thread_time()


def _load() -> float | None:
    try:
        return os.getloadavg()[0]
    except OSError:
        return None


def _processor(effort: FleetEffort) -> tuple[FleetFigure, ...]:
    """A GEMM by the BLAS of numpy, and copies in main memory, on one core."""
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((_SIDE, _SIDE)).astype(np.float32) for _ in range(2))
    c = np.empty_like(a)
    source = np.zeros(_COPIED >> 3)
    target = np.ones_like(source)
    return (
        _rate("gemm fp32", "FLOP/s", 2.0 * _SIDE**3, lambda: np.matmul(a, b, out=c), effort),
        _rate("copy", "B/s", 2.0 * _COPIED, lambda: np.copyto(target, source), effort),
    )


def _rate(
    name: str, unit: str, work: float, run: Callable[[], object], effort: FleetEffort
) -> FleetFigure:
    run()
    end = effort.clock() + effort.seconds
    slices: list[Figure] = []
    while len(slices) < _LEAST or effort.clock() < end:
        began = effort.clock()
        run()
        rate = roofline.rate(work, max(effort.clock() - began, 1e-9))
        slices.append(Figure(value=rate, median=rate, samples=1))
    whole = over_rounds(slices)
    return FleetFigure(name=name, value=whole.value, unit=unit, spread=whole.spread)


def _gpu(device: str, effort: FleetEffort) -> tuple[str, tuple[FleetFigure, ...], dict[str, str]]:
    """The ceilings of `gambrel peaks`, with what the driver says of the board."""
    from gambrel.measure.gpu.telemetry import reader
    from gambrel.measure.peaks import measure_peaks
    from gambrel.measure.peaks import quick as roughly

    level = roughly(device) if effort.quick else {"steps": 20, "warmup": 5}
    found = measure_peaks(
        device,
        steps=level["steps"],
        warmup=level["warmup"],
        rounds=level.get("rounds"),
        refresh=True,
        cache=False,
    ).survey
    best: dict[str, FleetFigure] = {}
    for m in found.measurements:
        name = " ".join(filter(None, (m.resource, m.mix, m.dtype)))
        if name not in best or best[name].value < m.value:
            best[name] = FleetFigure(name=name, value=m.value, unit=m.unit, spread=m.spread)
    read = reader(int(device.partition(":")[2] or 0))
    now = read() if read is not None else None
    return found.name, tuple(best.values()), {"at the end": str(now)} if now else {}
