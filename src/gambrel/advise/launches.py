"""What fewer kernel starts would save where they dominate the expected time."""

from __future__ import annotations

from typing import Final

import msgspec

from gambrel.advise.whatif import with_change
from gambrel.analysis.estimate import Calibration
from gambrel.analysis.measures import Bound, Estimate
from gambrel.analysis.result import Analysis
from gambrel.errors import GambrelError

#: What a recorded list of kernels is called, by vendor.
GRAPHS: Final = {"nvidia": "CUDA graph", "amd": "HIP graph"}

#: The next stack, which starts fewer kernels.
_NEXT: Final = {"eager": "compiled", "compiled": "epilogue"}


class LaunchSaving(msgspec.Struct, frozen=True, kw_only=True):
    """An overhead-bound run: what fusing saves, and from when on the host adds to it.

    Attributes:
        launches: Kernel starts of a run.
        overhead_s: Expected time that they take, s.
        stack: The stack that it was compared with; empty where there is none.
        stack_launches: Kernel starts under that stack; None where there is none.
        stack_time_s: Expected time under it, s.
        stack_gain: Expected time as it is / under that stack.
        graph: What the vendor calls a recorded list of kernels; empty where it has none.
        host_limit_s: Expected time / kernel starts, s. The expected time is that of kernels back
            to back, as a graph replays them. A host that starts them one by one and needs longer
            for each than this adds the difference, and that is what a graph saves.
    """

    launches: int
    overhead_s: float
    host_limit_s: float
    stack: str = ""
    stack_launches: int | None = None
    stack_time_s: Estimate | None = None
    stack_gain: float | None = None
    graph: str = ""


def launch_saving(
    analysis: Analysis, calibration: Calibration | None = None
) -> LaunchSaving | None:
    """What a compiled model and a graph of kernels save; None unless the run is overhead-bound.

    Args:
        analysis: As it is.
        calibration: Constants of the expected time; None for those that come with gambrel.
    """
    expected = analysis.expected_time_s
    if expected is None or analysis.expected_bound is not Bound.OVERHEAD or not analysis.launches:
        return None
    found = LaunchSaving(
        launches=analysis.launches,
        overhead_s=expected.overhead_s,
        host_limit_s=expected.value / analysis.launches,
        graph=GRAPHS.get(analysis.hardware.vendor.lower(), ""),
    )
    fused = _kept(analysis, calibration)
    if fused is None or fused.expected_time_s is None or not fused.expected_time_s.value:
        return found
    return msgspec.structs.replace(
        found,
        stack=fused.stack,
        stack_launches=fused.launches,
        stack_time_s=fused.expected_time_s,
        stack_gain=expected.value / fused.expected_time_s.value,
    )


#: The analysis asked about last, the constants, and the same under the next stack: a report asks
#: for its sentences, its table and its JSON.
_last: list[tuple[Analysis, Calibration | None, Analysis | None]] = []


def _kept(analysis: Analysis, calibration: Calibration | None) -> Analysis | None:
    for known, constants, fused in _last:
        if known is analysis and constants == calibration:
            return fused
    found = _fused(analysis, calibration)
    _last[:] = [(analysis, calibration, found)]
    return found


def _fused(analysis: Analysis, calibration: Calibration | None) -> Analysis | None:
    """Under the next stack; None where there is none, or the analysis holds no workload."""
    stack = _NEXT.get(analysis.stack)
    if stack is None or analysis.workload is None:
        return None
    try:
        return with_change(analysis, (f"stack={stack}",), calibration)
    except GambrelError:
        return None
