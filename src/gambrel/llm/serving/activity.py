"""What a replica did over time, in at most so many intervals whatever the length of the run."""

from __future__ import annotations

from typing import Final

#: Intervals at most; when a run outgrows them, neighbours are joined.
INTERVALS: Final = 240
#: Seconds of an interval at the start.
_FIRST: Final = 0.25


class ActivityLog:
    """Sums over time of what a replica does.

    Attributes:
        width_s: Of an interval.
        busy_s: Time in which a step runs.
        running: Requests in flight times seconds.
        waiting: Requests that wait times seconds.
        cache: Share of the cache in use times seconds.
        tokens: Output tokens.
    """

    def __init__(self) -> None:
        self.width_s = _FIRST
        self.busy_s: list[float] = []
        self.running: list[float] = []
        self.waiting: list[float] = []
        self.cache: list[float] = []
        self.tokens: list[float] = []

    def add(
        self, start: float, end: float, running: int, waiting: int, cache: float, tokens: int
    ) -> None:
        """Counts steps that ran from ``start`` to ``end``."""
        width = self.width_s
        last = int(end / width)
        if last >= len(self.busy_s):
            self._reach(end)
            width = self.width_s
            last = int(end / width)
        i = int(start / width)
        if i == last:
            self._count(i, end - start, running, waiting, cache, tokens)
            return
        rate = tokens / (end - start)
        for k in range(i, last + 1):
            part = min(end, (k + 1) * width) - max(start, k * width)
            self._count(k, part, running, waiting, cache, rate * part)

    def _count(
        self, i: int, seconds: float, running: int, waiting: int, cache: float, tokens: float
    ) -> None:
        self.busy_s[i] += seconds
        self.running[i] += running * seconds
        self.waiting[i] += waiting * seconds
        self.cache[i] += cache * seconds
        self.tokens[i] += tokens

    def _reach(self, end: float) -> None:
        """Makes intervals up to a time, wider ones where there would be too many."""
        while end / self.width_s >= INTERVALS:
            self.width_s *= 2
            for name in _COLUMNS:
                old = getattr(self, name)
                old.extend([0.0] * (len(old) % 2))
                setattr(self, name, [a + b for a, b in zip(old[::2], old[1::2], strict=True)])
        more = int(end / self.width_s) + 1 - len(self.busy_s)
        for name in _COLUMNS:
            getattr(self, name).extend([0.0] * more)


_COLUMNS: Final = ("busy_s", "running", "waiting", "cache", "tokens")
