"""What a replica did over time, in at most so many intervals whatever the length of the run.

Events are kept as they come and added up many at a time.
"""

from __future__ import annotations

from array import array
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]

#: Intervals at most; when a run outgrows them, neighbours are joined.
INTERVALS: Final = 240
#: Seconds of an interval at the start.
_FIRST: Final = 0.25
#: Numbers of an event, and of the events that are added up at once.
_EVENT: Final = 6
BLOCK: Final = 16_384 * _EVENT
#: Time in which steps run; of an event behind its start and end, requests in flight and waiting,
#: share of the cache, output tokens.
COLUMNS: Final = ("busy_s", "running", "waiting", "cache", "tokens")


class ActivityLog:
    """Sums over time of what a replica does.

    Attributes:
        width_s: Of an interval.
        events: Start, end, requests in flight and waiting, share of the cache in use, and output
            tokens of steps that are not added up yet, one event behind another.
    """

    def __init__(self) -> None:
        self.width_s = _FIRST
        self.events = array("d")
        self._sums: Floats = np.zeros((len(COLUMNS), 0))

    def column(self, name: str) -> Floats:
        """Sums for each interval, by a name of `COLUMNS`; requests and shares times seconds."""
        self.add_up()
        column: Floats = self._sums[COLUMNS.index(name)]
        return column

    def add_up(self) -> None:
        """Adds the events to the intervals in which they ran."""
        if not self.events:
            return
        start, end, running, waiting, cache, tokens = np.array(self.events).reshape(-1, _EVENT).T
        del self.events[:]
        self._reach(float(end.max()))
        seconds = end - start
        cache = np.minimum(cache, 1.0)
        rates = np.stack([np.ones_like(seconds), running, waiting, cache, tokens / seconds])
        first = (start / self.width_s).astype(np.int64)
        last = (end / self.width_s).astype(np.int64)
        # An event that lies in several intervals has a part in each.
        parts = last - first + 1
        event = np.repeat(np.arange(len(parts)), parts)
        place = np.arange(len(event)) - np.repeat(np.cumsum(parts) - parts, parts) + first[event]
        low = np.maximum(start[event], place * self.width_s)
        within = np.minimum(end[event], (place + 1) * self.width_s) - low
        for i, rate in enumerate(rates):
            self._sums[i] += np.bincount(place, rate[event] * within, self._sums.shape[1])

    def _reach(self, end: float) -> None:
        """Makes intervals up to a time, wider ones where there would be too many."""
        sums = self._sums
        while end / self.width_s >= INTERVALS:
            self.width_s *= 2
            sums = np.pad(sums, ((0, 0), (0, sums.shape[1] % 2)))
            sums = sums[:, ::2] + sums[:, 1::2]
        more = int(end / self.width_s) + 1 - sums.shape[1]
        self._sums = np.pad(sums, ((0, 0), (0, max(0, more))))
