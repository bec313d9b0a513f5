"""Work that the user knows, for kernels whose file has no counters of it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from gambrel.analysis.samples import Known, MeasuredWork, Sample, Samples
from gambrel.dtypes import parse_dtype
from gambrel.errors import InputError


def with_flops(samples: Samples, flops: Mapping[str, int]) -> Samples:
    """Fills in the work of launches whose own is not counted.

    Args:
        samples: As read.
        flops: FLOP of one launch, by a part of the kernel's name.

    Raises:
        InputError: A name fits no kernel, or only kernels whose work is counted.
    """
    if not flops:
        return samples
    used: set[str] = set()
    launches = tuple(_fill(launch, flops, used) for launch in samples.launches)
    for name in flops:
        if name not in used:
            raise InputError(f"--flops {name}: no kernel of that name lacks a count of its work.")
    return msgspec.structs.replace(samples, launches=launches)


def _fill(launch: Sample, flops: Mapping[str, int], used: set[str]) -> Sample:
    name = next((n for n in flops if n in launch.name), None)
    if name is None or launch.state is Known.COUNTED:
        return launch
    used.add(name)
    work = MeasuredWork(
        work_class="vector",
        dtype="any",
        flops=flops[name] * launch.count,
        how="given by the user",
    )
    notes = (*launch.notes, "FLOP given by the user, not counted")
    return msgspec.structs.replace(launch, state=Known.COUNTED, why="", work=(work,), notes=notes)


def with_precision(samples: Samples, dtype: str | None) -> Samples:
    """Names the number format of work whose source does not.

    Args:
        samples: As read.
        dtype: As people write it; None changes nothing.

    Raises:
        UnknownNameError: No such format.
    """
    if dtype is None:
        return samples
    known = parse_dtype(dtype)

    def named(work: MeasuredWork) -> MeasuredWork:
        if work.dtype != "any":
            return work
        # Without an engine the matrix rules apply: they fall back to the vector engine themselves.
        return msgspec.structs.replace(work, dtype=known, work_class="matrix")

    launches = tuple(
        msgspec.structs.replace(s, work=tuple(map(named, s.work))) for s in samples.launches
    )
    return msgspec.structs.replace(samples, launches=launches)
