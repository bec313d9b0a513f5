"""Measures the ceilings of a GPU through torch: CUDA, and ROCm by the same calls.

What touches the device stands behind `Bench`, so that everything else runs anywhere.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.util import find_spec
from itertools import pairwise
from typing import Any, Final

from gambrel._version import __version__
from gambrel.errors import DeviceError, MissingExtraError
from gambrel.measure.records import Measurement, Survey
from gambrel.measure.stats import Figure, best_of, figure

Progress = Callable[[int, int, str], None]

#: Sides of the square products; the best is reported with its side.
SIDES: Final = (2048, 4096, 8192, 16384)
#: Arrays of the streaming copies are this many times the L2, and at least this large.
_TIMES_L2: Final = 8
_LEAST_BYTES: Final = 512 << 20
#: Compute capabilities whose matrix engine takes fp64, which cuBLAS then uses: A100, H100, B200.
#: Source: NVIDIA's CUDA C++ Programming Guide, table of arithmetic by compute capability.
#: gfx90a and gfx942 report 9.0 and 9.4; their matrix cores take fp64 as well.
_FP64_MATRIX: Final = frozenset({(8, 0), (9, 0), (10, 0), (9, 4)})
#: Seconds of work before clocks are taken to have settled, and that a sustained rate lasts.
_SETTLE_S: Final = 0.5
_SUSTAINED_S: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """The device, as far as measuring needs it.

    Attributes:
        device: As torch names it.
        timed: From a call and a count to the seconds of each of so many calls.
        sides: Of the products that are tried.
        stream_bytes: Of one array of the streaming copies.
        fp64_engine: That the library's fp64 products run on.
        settle_s: Seconds of work before the first measurement of a kind.
        sustained_s: Seconds that a sustained rate lasts.
        level2_bytes: Capacity of the L2; 0 where unknown.
        repeated: From a call and a count to one call that does it so often without the host; None
            where the device has no such thing.
    """

    device: str
    timed: Callable[[Callable[[], Any], int], list[float]]
    sides: tuple[int, ...] = SIDES
    stream_bytes: int = _LEAST_BYTES
    fp64_engine: str = "vector"
    settle_s: float = _SETTLE_S
    sustained_s: float = _SUSTAINED_S
    level2_bytes: int = 0
    repeated: Callable[[Callable[[], Any], int], Callable[[], Any]] | None = None


def index_of(name: str) -> int:
    """The number of a device from ``"cuda"`` or ``"cuda:1"``.

    Raises:
        MissingExtraError: torch is not installed.
        DeviceError: There is no such device here.
    """
    if find_spec("torch") is None:
        raise MissingExtraError("torch", "torch", "measuring a GPU")
    import torch

    if not torch.cuda.is_available():
        raise DeviceError(
            f"cannot measure {name!r}: torch {torch.__version__} finds no GPU here; "
            "measure 'cpu', or install a build of torch for your GPU and its driver."
        )
    text = name.partition(":")[2]
    count = torch.cuda.device_count()
    index = int(text) if text.isdigit() else torch.cuda.current_device()
    if (text and not text.isdigit()) or index >= count:
        raise DeviceError(f"there is no device {name!r}; torch finds {count}, cuda:0 first.")
    return int(index)


def identity(index: int) -> dict[str, str]:
    """What decides whether a stored measurement of a GPU still holds."""
    import torch

    about = torch.cuda.get_device_properties(index)
    return {
        "device": f"{about.name} cuda:{index}",
        "memory": str(about.total_memory),
        "units": str(about.multi_processor_count),
        "runtime": str(torch.version.cuda or torch.version.hip),
        "driver": _driver(),
        "torch": str(torch.__version__),
        "gambrel": __version__,
    }


def survey(index: int, effort: Mapping[str, int], progress: Progress | None = None) -> Survey:
    """Measures one GPU.

    Args:
        index: Of the device.
        effort: ``steps``, ``warmup`` and ``rounds``.
        progress: As for `gambrel.measure.measure_peaks`.

    Raises:
        DeviceError: The device fails.
    """
    import torch

    about = torch.cuda.get_device_properties(index)
    level2 = int(getattr(about, "L2_cache_size", 0))
    bench = Bench(
        device=f"cuda:{index}",
        timed=_timed_by_events(index),
        stream_bytes=min(max(_TIMES_L2 * level2, _LEAST_BYTES), about.total_memory // 8),
        fp64_engine="matrix" if (about.major, about.minor) in _FP64_MATRIX else "vector",
        level2_bytes=level2,
        repeated=_repeated_by_graph,
    )
    begun = datetime.now(UTC)
    with torch.cuda.device(index):
        found, unknown = measure(bench, effort, progress)
    parts = identity(index)
    return Survey(
        device=bench.device,
        id="this-" + "-".join(about.name.lower().split()),
        name=about.name,
        vendor="AMD" if torch.version.hip else "NVIDIA",
        category="gpu",
        date=begun.date().isoformat(),
        measurements=found,
        versions={k: parts[k] for k in ("gambrel", "torch", "runtime", "driver")},
        settings={k: str(v) for k, v in effort.items()},
        capacities={"DRAM": int(about.total_memory)} | ({"L2": level2} if level2 else {}),
        unknown=(*unknown, "shared memory bandwidth: no kernel of gambrel's measures it"),
        notes=(
            "Compute roofs are what torch's matrix products attain, the best of several sizes.",
        ),
    )


def measure(
    bench: Bench, effort: Mapping[str, int], progress: Progress | None = None
) -> tuple[tuple[Measurement, ...], tuple[str, ...]]:
    """All figures of a device, and what it cannot do, with the reason.

    The precision flags of torch are as they were afterwards.
    """
    found: list[Measurement] = []
    unknown: list[str] = []
    tasks = [*_products(bench), *_streams(bench), *_level2(bench), *_transfers(bench)]
    if not bench.level2_bytes or bench.repeated is None:
        unknown.append("L2 bandwidth: its size is unknown, or nothing can repeat a kernel in place")
    with _flags_restored():
        for position, task in enumerate(tasks):
            if progress is not None:
                progress(position, len(tasks), f"{task.resource} {task.dtype} {task.mix}")
            try:
                found += _run(bench, task, effort)
            except (RuntimeError, NotImplementedError, AttributeError, TypeError) as error:
                reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
                unknown.append(f"{task.dtype or task.resource} {task.mix}: {reason[:160]}")
    return tuple(found), tuple(unknown)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Task:
    """Something to measure; ``prepare`` gives a call for a size, and the work of one call."""

    resource: str
    mix: str
    sizes: tuple[int, ...]
    prepare: Callable[[int], tuple[Callable[[], Any], float]]
    unit: str
    dtype: str = ""
    tf32: bool = False
    note: str = ""


def _run(bench: Bench, task: _Task, effort: Mapping[str, int]) -> Iterator[Measurement]:
    import torch

    torch.set_float32_matmul_precision("high" if task.tf32 else "highest")
    best: tuple[Figure, int] | None = None
    for size in task.sizes:
        try:
            call, work = task.prepare(size)
            _settle(bench, call)
            bench.timed(call, max(1, effort["warmup"]))
            rounds = [
                figure(bench.timed(call, effort["steps"]), work) for _ in range(effort["rounds"])
            ]
        except torch.cuda.OutOfMemoryError:
            break  # a larger size needs more still
        now = best_of(rounds)
        if best is None or now.value > best[0].value:
            best = (now, size)
    if best is None:
        raise RuntimeError("out of memory at the smallest size")
    yield _record(task, best[0], best[1], effort)
    if task.unit == "FLOP/s":
        call, work = task.prepare(best[1])
        sustained = figure(_for_seconds(bench, call, bench.sustained_s), work)
        kept = Figure(value=sustained.median, median=sustained.median, samples=sustained.samples)
        yield _record(task, kept, best[1], effort, " sustained")


def _record(
    task: _Task, best: Figure, size: int, effort: Mapping[str, int], suffix: str = ""
) -> Measurement:
    product = task.unit == "FLOP/s"
    return Measurement(
        resource=task.resource,
        mix=task.mix + suffix,
        dtype=task.dtype,
        value=best.value,
        median=best.median,
        spread=best.spread,
        samples=best.samples,
        rounds=1 if suffix else effort["rounds"],
        unit=task.unit,
        threads=0,
        working_set_bytes=None if product else size,
        note=f"square product of side {size}" if product else task.note,
    )


def _products(bench: Bench) -> Iterator[_Task]:
    import torch

    kinds = {
        "fp64": (bench.fp64_engine, torch.float64, False),
        "fp32": ("vector", torch.float32, False),
        "tf32": ("matrix", torch.float32, True),
        "fp16": ("matrix", torch.float16, False),
        "bf16": ("matrix", torch.bfloat16, False),
    }
    for dtype, (engine, kind, tf32) in kinds.items():

        def prepare(side: int, kind: Any = kind) -> tuple[Callable[[], Any], float]:
            a, b = (torch.randn(side, side, device=bench.device).to(kind) for _ in range(2))
            out = torch.empty(side, side, device=bench.device, dtype=kind)
            return lambda: torch.mm(a, b, out=out), 2.0 * side**3

        yield _Task(
            resource=engine,
            mix="matmul",
            dtype=dtype,
            sizes=bench.sides,
            prepare=prepare,
            unit="FLOP/s",
            tf32=tf32,
        )
    yield _Task(
        resource="matrix",
        mix="matmul",
        dtype="int8",
        sizes=bench.sides,
        prepare=lambda side: _int8(bench, side),
        unit="FLOP/s",
    )
    yield _Task(
        resource="matrix",
        mix="matmul",
        dtype="fp8",
        sizes=bench.sides,
        prepare=lambda side: _fp8(bench, side),
        unit="FLOP/s",
    )


def _int8(bench: Bench, side: int) -> tuple[Callable[[], Any], float]:
    import torch

    shape = (side, side)
    a, b = (torch.randint(-99, 99, shape, device=bench.device).to(torch.int8) for _ in range(2))
    return lambda: torch._int_mm(a, b.t()), 2.0 * side**3


def _fp8(bench: Bench, side: int) -> tuple[Callable[[], Any], float]:
    import torch

    a, b = (torch.randn(side, side, device=bench.device).to(torch.float8_e4m3fn) for _ in range(2))
    one = torch.ones((), device=bench.device)
    return (
        lambda: torch._scaled_mm(a, b.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16),
        2.0 * side**3,
    )


def _streams(bench: Bench) -> Iterator[_Task]:
    import torch

    def arrays(size: int, count: int) -> list[Any]:
        # Random values: arrays of zeros are copied faster than any data of a model.
        return [torch.rand(size // 4, device=bench.device) for _ in range(count)]

    def read(size: int) -> tuple[Callable[[], Any], float]:
        (a,) = arrays(size, 1)
        return lambda: torch.sum(a), float(size)

    def copy(size: int) -> tuple[Callable[[], Any], float]:
        a, b = arrays(size, 2)
        return lambda: a.copy_(b), 2.0 * size

    def triad(size: int) -> tuple[Callable[[], Any], float]:
        a, b, c = arrays(size, 3)
        return lambda: torch.add(b, c, alpha=0.5, out=a), 3.0 * size

    for mix, prepare in (("read", read), ("copy", copy), ("triad", triad)):
        yield _Task(
            resource="DRAM", mix=mix, sizes=(bench.stream_bytes,), prepare=prepare, unit="B/s"
        )


#: Share of the L2 that the repeated kernel works on, and how often it does so in one call.
_L2_SHARE: Final = 4
_L2_TIMES: Final = 64


def _level2(bench: Bench) -> Iterator[_Task]:
    """Updates in place of an array that stays in the L2, many in one graph of kernels."""
    import torch

    repeated = bench.repeated
    if not bench.level2_bytes or repeated is None:
        return

    def update(size: int) -> tuple[Callable[[], Any], float]:
        a = torch.rand(size // 4, device=bench.device)
        return repeated(lambda: a.neg_(), _L2_TIMES), 2.0 * size * _L2_TIMES

    yield _Task(
        resource="L2",
        mix="update",
        sizes=(bench.level2_bytes // _L2_SHARE, bench.level2_bytes // (2 * _L2_SHARE)),
        prepare=update,
        unit="B/s",
        note="by torch's kernels, one after another: their starts are in it",
    )


def _repeated_by_graph(call: Callable[[], Any], count: int) -> Callable[[], Any]:
    """One call that runs kernels again and again without the host in between."""
    import torch

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        call()  # what is compiled or allocated at first use must not be recorded
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(count):
            call()
    replay: Callable[[], Any] = graph.replay
    return replay


def _transfers(bench: Bench) -> Iterator[_Task]:
    import torch

    size = min(bench.stream_bytes, 256 << 20)

    def to_device(size: int) -> tuple[Callable[[], Any], float]:
        here = torch.rand(size // 4, pin_memory=bench.device.startswith("cuda"))
        there = here.to(bench.device)
        return lambda: there.copy_(here, non_blocking=True), float(size)

    def from_device(size: int) -> tuple[Callable[[], Any], float]:
        here = torch.rand(size // 4, pin_memory=bench.device.startswith("cuda"))
        there = here.to(bench.device)
        return lambda: here.copy_(there, non_blocking=True), float(size)

    for mix, prepare in (("to device", to_device), ("from device", from_device)):
        yield _Task(resource="host link", mix=mix, sizes=(size,), prepare=prepare, unit="B/s")


def _settle(bench: Bench, call: Callable[[], Any]) -> None:
    """Works until the clocks have settled: a device that idled starts slow and cool."""
    _for_seconds(bench, call, bench.settle_s)


def _for_seconds(bench: Bench, call: Callable[[], Any], seconds: float) -> list[float]:
    times = bench.timed(call, 1)
    while sum(times) < seconds:
        times += bench.timed(call, max(1, min(100, int(0.1 / max(times[-1], 1e-9)))))
    return times


def _timed_by_events(index: int) -> Callable[[Callable[[], Any], int], list[float]]:
    import torch

    def timed(call: Callable[[], Any], count: int) -> list[float]:
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
        marks[0].record()
        for mark in marks[1:]:
            call()
            mark.record()
        torch.cuda.synchronize(index)
        return [max(a.elapsed_time(b), 1e-6) * 1e-3 for a, b in pairwise(marks)]

    return timed


def timed_by_clock(
    clock: Callable[[], float] = time.perf_counter,
) -> Callable[[Callable[[], Any], int], list[float]]:
    """Times calls by a clock, for devices that compute before a call returns."""

    def timed(call: Callable[[], Any], count: int) -> list[float]:
        times = []
        for _ in range(count):
            begun = clock()
            call()
            times.append(max(clock() - begun, 1e-9))
        return times

    return timed


@contextmanager
def _flags_restored() -> Iterator[None]:
    import torch

    precision = torch.get_float32_matmul_precision()
    benchmark = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = False
    try:
        with torch.no_grad(), torch.random.fork_rng():
            yield
    finally:
        torch.set_float32_matmul_precision(precision)
        torch.backends.cudnn.benchmark = benchmark


def _driver() -> str:
    """The kernel driver's version as it says itself; empty where it does not."""
    from pathlib import Path

    for place in ("/sys/module/nvidia/version", "/sys/module/amdgpu/version"):
        try:
            return Path(place).read_text(encoding="ascii").strip()
        except OSError:
            continue
    return ""
