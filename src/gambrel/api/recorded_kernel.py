"""One kernel of a file that a profiler wrote: its launches of one shape, and their median time."""

from __future__ import annotations

import statistics
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from gambrel.errors import InputError, cut

if TYPE_CHECKING:
    from gambrel.analysis.samples import Sample, Samples
    from gambrel.device.model import Device

#: Formats whose bytes follow from the shapes of ops; those of the others are counted.
_BY_SHAPE: Final = ("PyTorch trace", "XPlane")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedKernel:
    """Launches that do the same work.

    Attributes:
        launch: One of them, with the median time.
        count: How many there are.
        others: Launches of the same kernel that do other work.
        device_name: What it ran on, as the file says; empty where it does not.
        device: That device, where the catalog has it.
        on_processor: Whether a processor ran it.
        counters: Whether its bytes come from counters.
        origin: Where it is from, in words.
    """

    launch: Sample
    count: int
    others: int
    device_name: str
    device: Device | None
    on_processor: bool
    counters: bool
    origin: str

    @property
    def time_s(self) -> float:
        """Median of a launch."""
        return self.launch.time_s or 0.0


def recorded_kernel(path: Path, named: str | None, *, timed: bool = True) -> RecordedKernel:
    """The kernel of a file whose name contains a text.

    Args:
        path: What a profiler wrote.
        named: The text; None where the file has one kernel only.
        timed: Whether launches without a time are of no use.

    Raises:
        InputError: No such kernel has a time, or none is named and there are several.
    """
    from gambrel.traces import read

    samples = read([path])
    usable = [s for s in samples.launches if s.time_s or not timed]
    chosen = [s for s in usable if named is None or named in s.name]
    if not chosen or (named is None and len({s.name for s in chosen}) > 1):
        names = ", ".join(dict.fromkeys(cut(s.name) for s in samples.launches[:40]))
        what = "kernels with a time" if timed and usable else "kernels"
        none = "" if usable else "; it holds no times, so that only --limits can be asked"
        raise InputError(f"{path.name}: --kernel must name one of its {what}{none}: {names[:400]}.")
    return _largest(path, samples, chosen)


def _largest(path: Path, samples: Samples, chosen: list[Sample]) -> RecordedKernel:
    """The launches of the work that takes most of the time."""
    alike: dict[Any, list[Sample]] = defaultdict(list)
    for sample in map(_one, chosen):
        alike[sample.name, sample.work].append(sample)
    most = max(alike.values(), key=lambda group: sum(s.time_s or 0.0 for s in group))
    from gambrel.traces.devices import catalog_device

    times = [s.time_s for s in most if s.time_s]
    middle = statistics.median(times) if times else None
    return RecordedKernel(
        launch=msgspec.structs.replace(_middle(most), time_s=middle),
        count=len(most),
        others=len(chosen) - len(most),
        device_name=samples.device_name,
        device=catalog_device(samples),
        on_processor=samples.on_processor,
        counters=not samples.format.startswith(_BY_SHAPE),
        origin=f"{path.name}, {len(most):,} launches of {cut(most[0].name)}",
    )


def _middle(launches: list[Sample]) -> Sample:
    """The launch whose time is in the middle: its counters are nobody else's mean."""
    return sorted(launches, key=lambda s: s.time_s or 0.0)[len(launches) // 2]


def _one(sample: Sample) -> Sample:
    """One of several launches that were added up."""
    if sample.count == 1:
        return sample
    count = sample.count
    work = tuple(msgspec.structs.replace(w, flops=w.flops // count) for w in sample.work)
    traffic = tuple(
        t if t.traffic_bytes is None
        else msgspec.structs.replace(t, traffic_bytes=t.traffic_bytes // count)
        for t in sample.traffic
    )  # fmt: skip
    time_s = None if sample.time_s is None else sample.time_s * (1 / count)
    return msgspec.structs.replace(sample, count=1, time_s=time_s, work=work, traffic=traffic)
