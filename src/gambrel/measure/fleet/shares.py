"""How much of a processor a thread got, and who had the rest: other processes, or a limit.

Linux says how long a thread waited for a processor (``/proc/thread-self/schedstat``: ns on a
processor, ns waiting, slices; Documentation/scheduler/sched-stats.rst) and how long its control
group was held back by a quota (``cpu.stat``, Documentation/admin-guide/cgroup-v2.rst and
scheduler/sched-bwc.rst). Waiting includes the time that the quota took.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gambrel import roofline
from gambrel.measure.machine import scheduled

_SCHEDULER: Final = Path("/proc/thread-self")
_GROUPS: Final = Path("/proc/self/cgroup")
_MOUNTED: Final = Path("/sys/fs/cgroup")
#: Key of ``cpu.stat`` → seconds of its unit; version 2 of control groups, then version 1.
_HELD_BACK: Final = {"throttled_usec": 1e-6, "throttled_time": 1e-9}


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadTimes:
    """Seconds since some moment, of the calling thread; None where the system does not tell.

    Attributes:
        wall: By the clock.
        used: On a processor.
        waited: Ready to run, and not running.
        limited: Held back by a quota.
        alone: Whether the process has no other thread.
    """

    wall: float
    used: float
    waited: float | None
    limited: float
    alone: bool = True

    @classmethod
    def now(cls, clock: Callable[[], float] = time.perf_counter) -> ThreadTimes:
        """What the counters say now."""
        times = scheduled(_SCHEDULER)
        return cls(
            wall=clock(),
            used=time.thread_time(),
            waited=None if times is None else times[1],
            limited=_limited(),
            alone=threading.active_count() == 1,
        )

    def since(self, before: ThreadTimes) -> ThreadTimes:
        """What has passed since."""
        known = self.waited is not None and before.waited is not None
        return ThreadTimes(
            wall=self.wall - before.wall,
            used=self.used - before.used,
            waited=(self.waited or 0.0) - (before.waited or 0.0) if known else None,
            limited=max(0.0, self.limited - before.limited),
            alone=self.alone and before.alone,
        )

    @property
    def allowed(self) -> float | None:
        """Share of the time that nobody else had in which the thread ran.

        Less than 1 means a quota, or that the process was stopped. Of a thread among others the
        quota alone counts: it may have waited for the interpreter's lock as well.
        """
        if self.waited is None:
            return None
        own = self.used + self.limited
        if self.alone:
            own = max(self.wall - max(0.0, self.waited - self.limited), self.used)
        return min(1.0, float(roofline.rate(self.used, max(own, 1e-9))))

    @property
    def stolen(self) -> float | None:
        """Share of the time that other processes had."""
        if self.wall <= 0:
            return None
        lost = self.wall - self.used if self.waited is None else self.waited - self.limited
        return min(1.0, max(0.0, float(roofline.rate(lost, self.wall))))


def _limited() -> float:
    """Seconds that a quota took from the control group of this process; 0 where there is none."""
    try:
        lines = _GROUPS.read_text().splitlines()
    except OSError:
        return 0.0
    for line in lines:
        _, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        if names and "cpu" not in names.split(","):
            continue
        # In a container the path is that of the host, and its own group is mounted at the top.
        for folder in (_MOUNTED / ("cpu" if names else "") / path.lstrip("/"), _MOUNTED):
            seconds = _held_back(folder / "cpu.stat")
            if seconds is not None:
                return seconds
    return 0.0


def _held_back(path: Path) -> float | None:
    try:
        words = path.read_text().split()
    except OSError:
        return None
    known = dict(zip(words[::2], words[1::2], strict=False))
    return next((int(known[key]) * unit for key, unit in _HELD_BACK.items() if key in known), None)
