"""Everything that is measured of one GPU, in one session."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final

from gambrel.errors import first_line
from gambrel.measure.gpu import precision, products, streams
from gambrel.measure.gpu.board import board_reader
from gambrel.measure.gpu.engines import engines_of, fp8_of
from gambrel.measure.gpu.place import About, about, identity, outside_settings
from gambrel.measure.gpu.tasks import FAILURES, run, still_there
from gambrel.measure.gpu.timing import (
    SETTLE_S,
    SUSTAINED_S,
    Bench,
    repeated_by_graph,
    timed_by_events,
)
from gambrel.measure.records import Measurement, Survey

Progress = Callable[[int, int, str], None]

#: Arrays of the streaming copies are this many times the L2, and at least this large.
_TIMES_L2: Final = 8
_LEAST_BYTES: Final = 512 << 20
#: AMD's torch names the L2 alone; behind it lie up to 256 MiB (MI300) of another cache.
_LEAST_AMD_BYTES: Final = 2 << 30
#: The largest arrays that are tried.
_MOST_BYTES: Final = 4 << 30
#: Share of the free memory that measuring takes.
_SHARE: Final = 0.8
#: So many calls in all rounds, or fewer, are a rough survey (``--quick``: under ten seconds).
_FEW: Final = 10
#: What a rough survey keeps of the time to settle and to sustain.
_ROUGH: Final = 0.1
_ROUGH_SIDES: Final = (2048, 4096, 8192)


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

    seen = about(index)
    bench = bench_of(index, seen, rough=effort["steps"] * effort["rounds"] <= _FEW)
    begun = datetime.now(UTC)
    with torch.cuda.device(index):
        found, unknown = measure(bench, effort, progress)
    parts = identity(index)
    return Survey(
        device=bench.device,
        id="this-" + re.sub(r"[^a-z0-9]+", "-", seen.name.lower()).strip("-"),
        name=seen.name,
        vendor="AMD" if seen.amd else "NVIDIA",
        category="gpu",
        date=begun.date().isoformat(),
        measurements=found,
        versions={k: parts[k] for k in ("gambrel", "torch", "runtime", "driver")},
        settings={k: str(v) for k, v in effort.items()} | outside_settings(),
        capacities={"DRAM": seen.total_bytes}
        | ({"L2": seen.level2_bytes} if seen.level2_bytes else {}),
        architecture=seen.architecture,
        num_units=seen.units,
        boost_clock_hz=seen.clock_hz,
        unknown=(*unknown, "shared memory bandwidth: no kernel of gambrel's measures it"),
        notes=("Compute roofs are what torch's GEMMs attain, the best of several sizes.",),
    )


def bench_of(index: int, seen: About, *, rough: bool) -> Bench:
    """The device as measuring needs it.

    Args:
        index: Of the device.
        seen: What torch says of it.
        rough: Take less time and try less.
    """
    import torch

    free = torch.cuda.mem_get_info(index)[0]
    share = _ROUGH if rough else 1.0
    return Bench(
        device=f"cuda:{index}",
        timed=timed_by_events(index),
        engines=engines_of(seen),
        sides=_ROUGH_SIDES if rough else products.SIDES,
        stream_bytes=_sizes(seen, free, rough=rough),
        level2_bytes=seen.level2_bytes,
        free_bytes=int(_SHARE * free),
        fp8=fp8_of(seen),
        host_link=not seen.integrated,
        settle_s=SETTLE_S * share,
        sustained_s=SUSTAINED_S * share,
        round_s=0.4 * share,
        finalists=1 if rough else 2,
        repeated=repeated_by_graph,
        release=torch.cuda.empty_cache,
        reading=board_reader(seen.uuid, index),
    )


def _sizes(seen: About, free: int, *, rough: bool) -> tuple[int, ...]:
    """Arrays that no cache holds, three of which fit into the free memory."""
    least = max(
        _TIMES_L2 * (seen.level2_bytes or 0), _LEAST_AMD_BYTES if seen.amd else _LEAST_BYTES
    )
    most = int(_SHARE * free / 3)
    sizes = [size for factor in (1, 2, 4) if (size := factor * least) <= min(most, _MOST_BYTES)]
    chosen = (sizes[-1:] if rough else sizes) or [min(least, most)]
    return tuple(size // 4096 * 4096 for size in chosen)


def measure(
    bench: Bench, effort: Mapping[str, int], progress: Progress | None = None
) -> tuple[tuple[Measurement, ...], tuple[str, ...]]:
    """All figures of a device, and what it cannot do, with the reason.

    The precision flags of torch are as they were afterwards.

    Raises:
        DeviceError: The device does not answer any more.
    """
    found: list[Measurement] = []
    unknown: list[str] = [*products.lacking(bench), *streams.lacking(bench)]
    tasks = [*products.products(bench), *streams.tasks(bench)]
    with precision.honest(bench.device):
        for position, task in enumerate(tasks):
            if progress is not None:
                progress(position, len(tasks), f"{task.resource} {task.dtype} {task.mix}")
            try:
                found += run(bench, task, effort)
            except FAILURES as error:
                unknown.append(f"{task}: {first_line(error)[:160]}")
                still_there(bench, unknown[-1])
            finally:
                bench.release()
    return _plausible(found, unknown)


def _plausible(
    found: list[Measurement], unknown: list[str]
) -> tuple[tuple[Measurement, ...], tuple[str, ...]]:
    """Without an L2 that seems slower than what lies behind it: its kernels do not show it."""
    behind = max((m.value for m in found if m.resource == "DRAM"), default=0.0)
    shown = max((m.value for m in found if m.resource == "L2"), default=0.0)
    if not 0.0 < shown <= behind:
        return tuple(found), tuple(unknown)
    kept = tuple(m for m in found if m.resource != "L2")
    return kept, (*unknown, "L2 bandwidth: torch's kernels on it are no faster than memory")
