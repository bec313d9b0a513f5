"""The limits of a kernel that a profiler recorded: of the work that it did."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from gambrel import roofline
from gambrel.advise.judge.records import KernelLimits
from gambrel.analysis.measures import Bound
from gambrel.analysis.samples import Known, Sample
from gambrel.device.fastest import fastest, fastest_memory
from gambrel.device.model import Device

#: Level of the traffic that crosses the main memory.
_MAIN: Final = "DRAM"
_OWN_WORK: Final = (
    "the work is what this kernel did; whether the problem needs so much is not known. Name the op "
    "or the code as the reference to hold it against that."
)


def limits_of_kernel(sample: Sample, device: Device, *, counters: bool) -> KernelLimits:
    """What the device allows for the work of one launch.

    Args:
        sample: One launch.
        device: Where it ran, or another.
        counters: Whether its bytes are those that crossed the memory, as counters say; else they
            are the compulsory ones of its op, which caches may have kept.
    """
    seconds: dict[str, float] = defaultdict(float)
    proves, unknown = True, []
    for work in sample.work:
        roof = fastest(device, work.work_class, work.dtype)
        if work.suspect or not work.flops:
            continue
        if roof is None:
            unknown.append(f"{work.work_class} {work.dtype}")
            continue
        proves &= roof.proves
        seconds[work.work_class] += float(roofline.seconds(work.flops, roof.flop_per_s))
    counted = sample.state is Known.COUNTED
    if not counted:
        unknown.append(f"work of this kernel ({sample.why or sample.state.value})")
    compute = max(seconds.values(), default=0.0)
    moved = sample.bytes_at(_MAIN)
    memory = fastest_memory(device)
    crossed = 0.0
    if moved is None or memory is None:
        unknown.append(f"{_MAIN} traffic" if moved is None else "memory bandwidth")
    else:
        crossed = float(roofline.seconds(moved, memory.byte_per_s))
    # What is unknown could be what takes longest: there is a limit, and no score.
    cold = None if unknown else max(compute, crossed)
    how = "by its counters" if counters else "from the shapes of the op that launched it"
    return KernelLimits(
        reference=sample.name,
        hardware=device.id,
        precision=_precision(sample),
        ceilings="datasheet",
        matrix_flops=_flops(sample, "matrix") if counted else None,
        vector_flops=_flops(sample, "vector") if counted else None,
        work_source=how,
        traffic_bytes=moved,
        traffic_source=how,
        sol_time_s=max(compute, crossed) if counters else compute,
        floor_time_s=max(compute, crossed) if counters else compute,
        cold_time_s=cold,
        bound=None if cold is None else Bound.MEMORY if crossed > compute else Bound.COMPUTE,
        proves=proves,
        unknown=tuple(unknown),
        notes=(_OWN_WORK,),
    )


def _flops(sample: Sample, work_class: str) -> int:
    return sum(w.flops for w in sample.work if w.work_class == work_class and not w.suspect)


def _precision(sample: Sample) -> str:
    """The format of most of its work."""
    work = max(sample.work, key=lambda w: (w.work_class == "matrix", w.flops), default=None)
    return "unknown" if work is None else work.dtype
