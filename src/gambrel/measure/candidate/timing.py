"""Timed calls of a candidate: new values and cold caches before each, outputs watched after it.

Everything that is called here was looked up before the candidate was loaded.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Any, Final

from gambrel.measure.candidate.inputs import varied

#: Calls between which times must agree before the measurement begins, and the most of them.
_WARM: Final = 5
_MOST_WARM: Final = 60
#: Relative difference of two medians that counts as stable.
_STABLE: Final = 0.05


class Series:
    """Calls one after another.

    Args:
        call: Times one call: nanoseconds, and what it returned.
        clone: Copies a tensor.
        fill: Writes the values of its second argument into the first.
        same: Whether two tensors are equal.
        plain: The class of an output whose values are there.
        first: Values of the first call.
        inputs: The tensors that the candidate gets.
        numbers: Which values each call gets.
    """

    def __init__(
        self,
        *,
        call: Callable[[list[Any]], tuple[int, Any]],
        clone: Callable[[Any], Any],
        fill: Callable[[Any, Any], Any],
        same: Callable[[Any, Any], bool],
        plain: type,
        first: Sequence[Any],
        inputs: list[Any],
        numbers: Sequence[int],
    ) -> None:
        self._call, self._clone, self._fill, self._same = call, clone, fill, same
        self._first = [value.to(t.device) for value, t in zip(first, inputs, strict=True)]
        self._inputs, self._numbers, self._plain = inputs, numbers, plain
        self._outputs: list[Any] = []
        self._copies: list[Any] = []
        self.calls = self.late = 0

    def step(self) -> int:
        """Nanoseconds of one call with values of its own."""
        number = self._numbers[self.calls % len(self._numbers)]
        for tensor, value in zip(self._inputs, self._first, strict=True):
            self._fill(tensor, varied(value, number))
        self.look()
        spent, found = self._call(self._inputs)
        self._outputs = listed(found)
        self.late += any(type(output) is not self._plain for output in self._outputs)
        self._copies = [self._clone(output.detach()) for output in self._outputs]
        self.calls += 1
        return spent

    def look(self) -> None:
        """Counts the last call as late where its outputs have changed since it returned."""
        self.late += not all(map(self._same, self._outputs, self._copies))

    def copies(self) -> list[Any]:
        """Outputs of the last call, as they were when it returned."""
        return self._copies

    def warm_up(self, clock: Callable[[], int], budget_ns: int) -> int:
        """Calls until times are stable, and how many that took."""
        times: list[int] = []
        start = clock()
        while len(times) < _MOST_WARM and clock() - start < budget_ns:
            times += [self.step() for _ in range(_WARM)]
            if len(times) >= 2 * _WARM and _stable(times):
                break
        return len(times)


def listed(found: Any) -> list[Any]:
    """Outputs as a list."""
    return list(found) if isinstance(found, (tuple, list)) else [found]


def _stable(times: list[int]) -> bool:
    early = statistics.median(times[-2 * _WARM : -_WARM])
    late = statistics.median(times[-_WARM:])
    return abs(early - late) <= _STABLE * late
