"""The queue of kernels that a host fills and a device works off."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

from gambrel.ops.base import Size
from gambrel.roofline import maximum

#: Time of all executions in a row, launches, and time from a launch to the start on an idle device.
Kernel: TypeAlias = tuple[Size, float, Size]
#: When the host is through with its launches, and the device with its kernels, s.
State: TypeAlias = tuple[float, Size]


def queue(
    kernels: Iterable[Kernel], per_launch_s: float, state: State = (0.0, 0.0)
) -> Iterator[tuple[float, float, Size, Size]]:
    """When a device runs the kernels of a queue that the host fills one launch after another.

    A kernel starts when the one before has ended and the host has launched it. Of n equal kernels
    of time k in a row, the last ends no earlier than n kernels after the first could start, nor
    than k after the host has launched the last.

    Args:
        kernels: (time of all executions, launches, time from a launch to the start on an idle
            device), in order.
        per_launch_s: Host time for each launch, s.
        state: When the host is free, and the device, s.

    Yields:
        When the host begins to launch, when it is through; when the device begins, and ends, s.
    """
    rows = list(kernels)
    at_one_point = all(isinstance(seconds, (int, float)) for seconds, _, _ in rows)
    later: Callable[[Size, Size], Size] = max if at_one_point else maximum
    host, end = state
    for seconds, launches, latency in rows:
        launch, start = host, end
        end = start + seconds
        if launches:
            host = launch + launches * per_launch_s
            start = later(start, launch + per_launch_s + latency)
            end = later(start + seconds, host + latency + seconds / launches)
        yield launch, host, start, end


def behind(state: State, kernels: Sequence[Kernel], times: int, per_launch_s: float) -> State:
    """When host and device are through with kernels that run again and again, e.g. a layer's.

    A pass ends when the device has run all its kernels one after another, or when it has run those
    behind the last one that it waited for, whichever is later. Each further pass moves the lag of
    the device behind the host by the difference of their times, and down to no less than one pass
    leaves behind.

    Args:
        state: Before.
        kernels: Of one pass, in order.
        times: Passes, at least one.
        per_launch_s: Host time for each launch, s.
    """
    host, end = state
    busy: Size = sum(seconds for seconds, _, _ in kernels)
    handed = per_launch_s * sum(launches for _, launches, _ in kernels)
    # A pass on a device that has nothing left to do but to wait for its first launch.
    ends = [ended for *_, ended in queue(kernels, per_launch_s, (0.0, -math.inf))]
    alone: Size = ends[-1] if ends else -math.inf
    drift = busy - handed
    left = alone - handed + maximum(0.0, (times - 1) * drift)
    host_end = host + times * handed
    return host_end, host_end + maximum(end - host + times * drift, left)
