"""Expected times of a GPU that was measured: those of the device of that name in the catalog.

Constants of expected times are shares of published peaks. The measured roofs of a GPU are what
libraries attain, so that those shares of them would count what libraries lose twice (a matrix
product of side 8192 on an H100: 1.67 ms expected instead of 1.39).
"""

from __future__ import annotations

import msgspec

from gambrel.analysis.analyze import analyze
from gambrel.analysis.measures import Measures
from gambrel.analysis.result import Analysis
from gambrel.analysis.settings import Settings
from gambrel.device.lookup import find
from gambrel.device.model import Device
from gambrel.errors import UnknownNameError
from gambrel.workload import Workload


def with_published(
    computed: Analysis, workload: Workload, settings: Settings, measured: Device
) -> Analysis:
    """The analysis with the expected times of the published device of the same name.

    Bounds stay those of the measured roofs, and no expected time is below its bound. Unchanged
    where the catalog has no such device, or the user has fitted constants to this one.

    Args:
        computed: On the measured device.
        workload: That it is of.
        settings: That it was made with.
        measured: The device.
    """
    own = settings.calibration is not None and any(
        s.device == measured.id for s in settings.calibration.sets
    )
    known = None if own or measured.category == "cpu" else _of_name(measured.name)
    if known is None:
        return computed
    other = analyze(workload, known, settings)
    if [op.name for op in other.ops] != [op.name for op in computed.ops]:
        return computed  # a compiler fuses otherwise for that device
    ops = tuple(
        msgspec.structs.replace(op, measures=_expected(op.measures, published.measures, known))
        for op, published in zip(computed.ops, other.ops, strict=True)
    )
    return msgspec.structs.replace(
        computed, ops=ops, total=_expected(computed.total, other.total, known)
    )


def _of_name(name: str) -> Device | None:
    try:
        return find(name).device
    except UnknownNameError:
        return None


def _expected(ours: Measures, theirs: Measures, known: Device) -> Measures:
    found = theirs.expected_time_s
    if found is None:
        return ours
    least = ours.roofline_time_s or 0.0
    return msgspec.structs.replace(
        ours,
        expected_time_s=msgspec.structs.replace(
            found,
            value=max(found.value, least),
            low=max(found.low, least),
            high=max(found.high, least),
            reason=f"as on {known.id} with its published peaks: {found.reason}",
        ),
        limited_by=theirs.limited_by,
    )
