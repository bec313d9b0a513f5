"""Samples: what a profiler, a trace or a table of points says about kernels. Data only.

Work has three states that stay apart: *counted* (zero is a count: an integer kernel has none),
*missing* (the file does not hold the counters) and *not countable* (the counters that the file
holds cannot be turned into FLOP on this chip).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from gambrel.analysis.samples.clock_log import ClockLog
from gambrel.device.model import Device

#: Id of a device made of the peaks that a report holds. It lists the engines that were profiled, so
#: work on an engine that it lacks has no roof, where a device of the catalog has a fallback.
PROFILED: Final = "profiled-device"

#: How a reader's note on roofs of its file begins; it is dropped where other roofs are used.
OWN_ROOFS: Final = "roofs from the report"


class Known(StrEnum):
    """What is known of a sample's work."""

    COUNTED = "counted"
    MISSING = "missing"
    NOT_COUNTABLE = "not countable"


class MeasuredWork(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Work on one engine in one number format.

    Attributes:
        work_class: ``matrix`` or ``vector``.
        dtype: Number format of the operands; ``any`` where the source does not tell.
        flops: FLOP, FMA = 2.
        sparse: Counted on the structured-sparsity path.
        how: Counter or formula that it comes from.
        error: Relative error that the way of counting can bring, 1; 0 for exact counts.
        suspect: Probably not arithmetic (constant moves); listed, not added.
    """

    work_class: str
    dtype: str
    flops: int
    sparse: bool = False
    how: str = ""
    error: float = 0.0
    suspect: bool = False


class MeasuredTraffic(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Bytes at one memory level.

    Attributes:
        level: ``DRAM``, ``L2``, ``L1`` or ``shared``.
        traffic_bytes: Read and written; None where only a rate is recorded.
        byte_per_s: Recorded rate, where no time and no sum is.
        how: Definition: the counter and its factor.
        others: Bytes by other definitions that the file allows.
        error: Relative error of a rate times a time, 1.
    """

    level: str
    traffic_bytes: int | None
    byte_per_s: float | None = None
    how: str = ""
    others: dict[str, int] = {}
    error: float = 0.0


class Sample(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One launch, or several added up.

    Attributes:
        name: Kernel, op or point.
        count: Launches that were added.
        time_s: Seconds, all launches together; None where none is recorded.
        state: What is known of the work.
        why: Why the work is missing or not countable.
        work: Work by engine and format; empty unless something was counted.
        traffic: Bytes by level, outermost first; a level that is not listed is unknown.
        group: NVTX range, module or op that it belongs to.
        grid: Blocks of a launch, as recorded.
        block: Threads of a block, as recorded.
        origin: File, process or device, where there are several.
        recorded: Shares that the profiler itself gives (1 = 100 %), by what they are.
        notes: What a reader must know about this sample.
        instructions: Instructions of warps (waves), all launches together; None where not recorded.
        ratios: Recorded quotients that are no shares, e.g. ``sectors per request``.
        range: Module or annotated range of the program that it was launched in.
    """

    name: str
    count: int = 1
    time_s: float | None = None
    state: Known = Known.COUNTED
    why: str = ""
    work: tuple[MeasuredWork, ...] = ()
    traffic: tuple[MeasuredTraffic, ...] = ()
    group: str = ""
    grid: str = ""
    block: str = ""
    origin: str = ""
    recorded: dict[str, float] = {}
    notes: tuple[str, ...] = ()
    instructions: int | None = None
    ratios: dict[str, float] = {}
    range: str = ""

    @property
    def flops(self) -> int | None:
        """FLOP on the main class of engine: matrix work where there is any, else vector work.

        None unless the work is counted.
        """
        if self.state is not Known.COUNTED:
            return None
        sums = {"matrix": 0, "vector": 0}
        for w in self.work:
            if not w.suspect:
                sums[w.work_class] += w.flops
        return sums["matrix"] or sums["vector"]

    def bytes_at(self, level: str) -> int | None:
        """Bytes at a level; None where unknown."""
        found = next((t for t in self.traffic if t.level == level), None)
        return None if found is None else found.traffic_bytes


class Samples(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that was read, launch by launch.

    Attributes:
        format: What the files are, e.g. ``"Nsight Compute CSV"``.
        sources: File names.
        launches: In the order recorded.
        device: Ceilings that the files themselves hold; None where they hold none.
        implied: Roofs that follow from attributes of the device in the files, with those of
            `device` where it has any; for devices that no catalog has.
        device_name: Name of the device in the files; empty where they do not say.
        on_processor: Whether a processor ran all of it, whatever GPU is named.
        notes: What a reader must know: definitions, clocks, assumptions.
        skipped: What could not be used, with counts.
        spans: Seconds by what the device did (``busy``, ``idle``, ...), for timelines.
        clocks: Clocks and power that were logged beside the run.
    """

    format: str
    sources: tuple[str, ...]
    launches: tuple[Sample, ...]
    device: Device | None = None
    implied: Device | None = None
    device_name: str = ""
    on_processor: bool = False
    notes: tuple[str, ...] = ()
    skipped: dict[str, int] = {}
    spans: dict[str, float] = {}
    clocks: ClockLog | None = None
