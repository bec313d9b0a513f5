"""Times kernels as a model runs them: in layers, with other weights in each.

A kernel that runs again and again finds its weights, its scratch memory and its code nearer than it
does in a model, where other kernels run in between; one that runs for the first time finds nothing.
A model repeats a dozen kernels of like size, each time with other weights. So do these layers: they
are drawn at random, run once untimed and then a few times, and are drawn anew. Activations were
written a moment before, as by the kernel in front.
"""

from __future__ import annotations

import math
import random
import time
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, Final

from gambrel.measure.calibrate.cases import Case

Clock = Callable[[], float]

#: Weights are pieces of a pool of this size, in turn.
POOL_BYTES: Final = 256 << 20
#: Activations are pieces of the pool from this size on; smaller ones have a place of their own.
_LARGE_BYTES: Final = 512 << 10
#: Results that stay alive, as activations of a model do; the next one lies elsewhere.
_ALIVE: Final = 3
_MOST_SETS: Final = 16
#: Kernels of a layer, and how often it runs for the clock.
_LAYER, _REPEATS = 4, 3
#: Two kernels of one layer differ by no more than such a factor as a rule.
_LIKE: Final = 1.3
#: Drawings of layers: at least, at most, and seconds that no further one begins after.
_LEAST, _MOST, _BUDGET_S = 2, 4, 12.0
#: The first touch is no more than all but one part in so many of a run.
_MOST_FRESH: Final = 10
#: Runs of a kernel, or a share of kernels, that differ by more are no stable result.
_UNSTEADY, _MANY = 0.5, 0.25


class Pool:
    """Random numbers of which weights and activations are views, one after another.

    Args:
        values: A flat tensor.
    """

    def __init__(self, values: Any) -> None:
        self._values = values
        self._next = 0

    def take(self, shape: Sequence[int]) -> Any:
        """The next piece, in a shape; from the beginning again where the rest is too short."""
        size = math.prod(shape)
        if self._next + size > self._values.numel():
            self._next = 0
        found = self._values[self._next : self._next + size].view(tuple(shape))
        self._next += -(-size // 64) * 64  # pieces begin at a cache line
        return found

    def sets(self, case: Case) -> list[tuple[Any, ...]]:
        """Arguments to be used in turn."""
        weights = sum(math.prod(shape) for shape in case.weights) * self._values.element_size()
        more = min(_MOST_SETS, max(1, POOL_BYTES // weights)) if weights else 1
        fixed = tuple(map(self._activation, case.inputs))
        return [(*fixed, *map(self.take, case.weights)) for _ in range(more)]

    def _activation(self, value: Any) -> Any:
        large = value.numel() * value.element_size() >= _LARGE_BYTES
        same = value.dtype == self._values.dtype and value.is_contiguous()
        return self.take(value.shape) if large and same else value


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedKernel:
    """A case that is one op, ready to run.

    Attributes:
        case: What runs.
        sets: Arguments in turn.
        key: Of its class.
        features: Of its size.
        roofline_s: On the device's roofs.
        seen: Seconds of each run.
        fresh: Bytes that each touched for the first time.
    """

    case: Case
    sets: list[tuple[Any, ...]]
    key: str
    features: tuple[float, ...]
    roofline_s: float
    seen: list[float] = field(default_factory=list)
    fresh: list[float] = field(default_factory=list)

    def seconds(self, fresh_s: float) -> float:
        """The mean of the middle half of the runs (a model adds up means), on pages that are there.

        Args:
            fresh_s: What the first touch of a byte takes, which is taken off.
        """
        runs = [
            max(s - n * fresh_s, s / _MOST_FRESH)
            for s, n in zip(self.seen, self.fresh, strict=True)
        ]
        quarter = len(runs) // 4
        return fmean(sorted(runs)[quarter : len(runs) - quarter])


def time_kernels(
    kernels: Sequence[PreparedKernel],
    clock: Clock = time.perf_counter,
    said: Callable[[int, int], None] = lambda *_: None,
) -> None:
    """Fills in what each kernel took.

    Warns where the runs differ too much for a stable result.

    Args:
        kernels: To time.
        clock: Seconds.
        said: Called with the number of calls done and how many there may be.
    """
    alive = deque[Any](maxlen=_ALIVE)
    drawn = random.Random(0)
    begun = time.perf_counter()
    for turn in range(_MOST):
        if turn >= _LEAST and time.perf_counter() - begun > _BUDGET_S:
            break
        for i, layer in enumerate(_layers(kernels, drawn)):
            said(turn * len(kernels) + i * _LAYER, _MOST * len(kernels))
            for again in range(_REPEATS + 1):
                for kernel in layer:
                    alive.append(_once(kernel, turn * _REPEATS + again, clock, kept=again > 0))
    _warn_unsteady(kernels)


def _layers(kernels: Sequence[PreparedKernel], drawn: random.Random) -> list[list[PreparedKernel]]:
    """Kernels of like size, in a random order."""
    width = math.log(_LIKE)
    order = sorted(kernels, key=lambda k: math.log(k.roofline_s or 1e-9) + drawn.gauss(0, width))
    layers = [order[i : i + _LAYER] for i in range(0, len(order), _LAYER)]
    for layer in layers:
        drawn.shuffle(layer)
    return layers


def _once(kernel: PreparedKernel, turn: int, clock: Clock, *, kept: bool) -> Any:
    values = kernel.sets[turn % len(kernel.sets)]
    for value in values[: len(kernel.case.inputs)]:
        if value.is_floating_point():
            value.mul_(1.0)  # written by the kernel in front
    before = _faulted_bytes()
    begun = clock()
    result = kernel.case.run(*values)
    seconds = clock() - begun
    if kept:
        kernel.seen.append(max(seconds, 1e-9))
        kernel.fresh.append(_faulted_bytes() - before)
    return result


def _faulted_bytes() -> float:
    """Pages that this process was given so far; 0 where the system does not say."""
    try:
        import resource
    except ImportError:  # Windows
        return 0.0
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_minflt * resource.getpagesize())


def _warn_unsteady(kernels: Sequence[PreparedKernel]) -> None:
    unsteady = sum(_spread(k.seen) > _UNSTEADY for k in kernels)
    if unsteady > _MANY * len(kernels):
        warnings.warn(
            f"{unsteady} of {len(kernels)} kernels differ by more than {_UNSTEADY:.0%} between "
            "runs: not a stable result. Calibrate again on an idle machine.",
            stacklevel=4,
        )


def _spread(seen: Sequence[float]) -> float:
    """How far the middle half of the runs lies apart."""
    found = sorted(seen)
    quarter = len(found) // 4
    return found[-1 - quarter] / found[quarter] - 1
