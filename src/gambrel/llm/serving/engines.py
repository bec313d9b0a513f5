"""Where no serving engine is named: the mean of those that were measured on the device.

Decode steps are compared on one layout of each device, at several batches and contexts. Prompts,
front end and host times are those of the device's usual engine: front ends differ by 3.6 times, and
no engine has their mean (`benchmarks/served.py --any` has the errors).
"""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from gambrel.analysis.sweep.points import Floats

#: Requests on a device at which engines are compared.
BATCHES: Final = (1, 4, 16, 64, 256, 1024)


class EngineMix(msgspec.Struct, frozen=True, kw_only=True):
    """Decode steps of several engines over those of the device's usual one.

    Attributes:
        names: The engines, the usual one first.
        contexts: Tokens at which they were compared, ascending.
        ratios: [engine, batch, context].
    """

    names: tuple[str, ...]
    contexts: tuple[int, ...]
    ratios: Floats

    def mean(self, batches: ArrayLike, contexts: ArrayLike) -> Floats:
        """The mean ratio at every context of every number of requests on a device; flat."""
        return self._at(self.ratios.mean(axis=0), batches, contexts)

    def spread(self, batch: int, context: int) -> tuple[float, float]:
        """The fastest and the slowest engine over the mean."""
        mean = float(self.mean([batch], [context])[0])
        ends = (self._at(f(self.ratios, axis=0), [batch], [context]) for f in (np.min, np.max))
        least, most = (float(x[0]) / mean for x in ends)
        return least, most

    def _at(self, ratios: Floats, batches: ArrayLike, contexts: ArrayLike) -> Floats:
        """Between the points by the logarithms of both; beyond them the nearest."""
        rows, columns = (np.log2(np.asarray(x, float)) for x in (batches, contexts))
        axis = np.log2(np.asarray(self.contexts, float))
        at_batches = np.array([np.interp(columns, axis, row) for row in ratios]).T
        places = np.log2(BATCHES)
        return np.array([np.interp(rows, places, column) for column in at_batches]).T.ravel()
