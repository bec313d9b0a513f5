"""The estimates of all items of a table on several devices, as arrays: a row for each device.

What `totals.total` says of the items of one device one by one is said here of a row, to the last
bit: sums run in the order of the items.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gambrel.analysis.estimate.kinship import LEVELS
from gambrel.analysis.estimate.totals import (
    BEYOND_ROOFLINE,
    ONLY_ROOFLINE,
    confidence_of,
    is_worth_a_word,
    with_rooflines,
)
from gambrel.analysis.measures import Estimate

Floats: TypeAlias = NDArray[np.float64]

_LOW: Final = LEVELS.index("low")


class Estimates:
    """Estimates of one execution of each item of a table.

    Args:
        bounds: Of each device the roofline time of each item, s; not a number where unknown.
    """

    def __init__(self, bounds: Floats) -> None:
        self.bounds = bounds
        self.known = np.zeros(bounds.shape, dtype=bool)
        self.value, self.low, self.high, self.launches_s, self.idle_start_s = (
            np.zeros_like(bounds) for _ in range(5)
        )
        #: Confidence by its place among `LEVELS`; reason and caution by their places among texts.
        self.level, self.reason, self.caution = (
            np.zeros(bounds.shape, dtype=np.int64) for _ in range(3)
        )
        self._texts: dict[str, int] = {"": 0, ONLY_ROOFLINE: 1}

    def code(self, text: str) -> int:
        """The place of a text."""
        return self._texts.setdefault(text, len(self._texts))

    def without_launches(self, device: int) -> Floats:
        """Of each item of a device the time that is no launch; not a number where unknown."""
        seconds = self.value[device] - self.launches_s[device]
        return np.where(self.known[device], seconds, np.nan)

    def total(self, device: int, counts: Floats) -> Estimate | None:
        """The run on a device; None where nothing is known of any item.

        Args:
            device: Its row.
            counts: Executions of each item.
        """
        known, alone = self.known[device], self.bounds[device] * counts
        if not known.any():
            return None
        items, others = np.flatnonzero(known), np.flatnonzero(~known & (alone > 0))

        def part(numbers: Any, factor: float) -> Any:
            return np.concatenate([(numbers[device] * counts)[items], alone[others] * factor])

        values = part(self.value, 1.0)
        level = np.append(self.level[device, items], np.full(len(others), _LOW))
        reason = np.append(
            self.reason[device, items], np.full(len(others), self.code(ONLY_ROOFLINE))
        )
        value = float(values.cumsum()[-1])
        confidence = confidence_of(np.bincount(level, values, len(LEVELS)).tolist(), value)
        sure = level == LEVELS.index(confidence)
        sure = sure if sure.any() else np.ones_like(sure)
        texts = list(self._texts)
        caution, cautious = self._main(self.caution[device, items], values[: len(items)], 1)
        return Estimate(
            value=value,
            low=float(part(self.low, 1.0).cumsum()[-1]),
            high=float(part(self.high, BEYOND_ROOFLINE).cumsum()[-1]),
            confidence=confidence,
            reason=with_rooflines(texts[self._main(reason[sure], values[sure])[0]], len(others)),
            launches_s=float(part(self.launches_s, 0.0).cumsum()[-1]),
            caution=texts[caution] if is_worth_a_word(cautious, value) else "",
        )

    @staticmethod
    def _main(codes: Any, weights: Any, first: int = 0) -> tuple[int, float]:
        """The text, from a place on, with most of the time, and that time; the first of equals."""
        sums = np.bincount(codes, weights).tolist()
        wanted = [code for code in dict.fromkeys(codes.tolist()) if code >= first]
        best = max(wanted, key=lambda code: sums[code], default=0)
        return best, sums[best] if wanted else 0.0
