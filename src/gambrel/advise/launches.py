"""What fewer kernel launches would save where launches or the host limit the run."""

from __future__ import annotations

from typing import Final

import msgspec

from gambrel.advise.whatif import with_change
from gambrel.analysis.estimate import Calibration
from gambrel.analysis.measures import Estimate, Limiter
from gambrel.analysis.result import Analysis
from gambrel.errors import GambrelError
from gambrel.runtimes import runtime

#: Changes that leave the host fewer launches, the one that saves most usually first.
_CHANGES: Final = (("fuse", "graphs"), ("graphs",), ("fuse",))


class LaunchSaving(msgspec.Struct, frozen=True, kw_only=True):
    """A run limited by launches or by the host, and what another runtime saves.

    Attributes:
        launches: Kernel launches of a run.
        lost_s: Expected time that launches take or that the device waits for the host, s.
        runtime: The runtime that it was compared with; empty where there is none.
        runtime_launches: Kernel launches under it; None where there is none.
        runtime_time_s: Expected time under it.
        runtime_gain: Expected time as it is / under that runtime.
    """

    launches: int
    lost_s: float
    runtime: str = ""
    runtime_launches: int | None = None
    runtime_time_s: Estimate | None = None
    runtime_gain: float | None = None


def launch_saving(
    analysis: Analysis, calibration: Calibration | None = None
) -> LaunchSaving | None:
    """What a compiled model or a CUDA graph saves; None unless launches or the host limit the run.

    Args:
        analysis: As it is.
        calibration: Constants of the expected time; None for those that come with gambrel.
    """
    expected = analysis.expected_time_s
    limited = analysis.limited_by in (Limiter.LAUNCHES, Limiter.HOST)
    if expected is None or not limited or not analysis.launches:
        return None
    found = LaunchSaving(launches=analysis.launches, lost_s=expected.launches_s + expected.host_s)
    after = _changed(analysis, calibration)
    if after is None or after.expected_time_s is None or not after.expected_time_s.value:
        return found
    return msgspec.structs.replace(
        found,
        runtime=runtime(after.runtime).name,
        runtime_launches=after.launches,
        runtime_time_s=after.expected_time_s,
        runtime_gain=expected.value / after.expected_time_s.value,
    )


def _changed(analysis: Analysis, calibration: Calibration | None) -> Analysis | None:
    """Under the first of the changes that applies; None where there is none."""
    if analysis.workload is None:
        return None
    for changes in _CHANGES:
        try:
            return with_change(analysis, changes, calibration)
        except GambrelError:
            continue
    return None
