"""Constants of a chip from measured runs of whole models, and how well they do on others.

Everything is a scale on constants to start from: a chip with many rows has one scale for each
constant, one with four rows a few that several constants share. Residuals are logarithms, large
ones count less (soft L1), and a weak pull to the start keeps what the rows do not determine.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from gambrel.analysis.estimate.tiled import loaded, pace, start_of
from gambrel.analysis.estimate.tiled_constants import TiledConstants
from gambrel.analysis.estimate.tiled_work import TiledTable
from gambrel.roofline import maximum, seconds

Floats: TypeAlias = NDArray[np.float64]
#: Constants that share one scale: ``start``, ``handed``, ``vector``, ``softmax``, ``activation``,
#: ``ahead``, ``shared`` for the calls that the memory feeds, or a number format for
#: its multiply-adds. ``start:int8`` is the start in that format alone.
Scale: TypeAlias = tuple[str, ...]
Pull: TypeAlias = float | Sequence[float] | Floats
#: Residuals from here on count less.
_LARGE: Final = 0.15
_ROUNDS: Final = 25


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRun:
    """A measured run of a whole model.

    Attributes:
        model: MeasuredRuns of one model are left out together.
        run: Its work, in one number format.
        seconds: Measured.
    """

    model: str
    run: TiledTable
    seconds: float


#: From so many models on, each constant has a scale of its own.
MANY: Final = 12
#: Weight of a factor of e from the start where rows are few. The loss grows with a large residual,
#: not with its square, and so little holds: with 0.4 a chip that is twice as fast stays 40 % off,
#: with 0.1 it is 23 to 27 % (four models, or one, of Snapdragon 8 Elite Gen 5).
FEW_PULL: Final = 0.1


def scales_of(
    start: TiledConstants, models: int, measured: Collection[str] = ()
) -> tuple[Scale, ...]:
    """What so many different models can tell apart.

    Args:
        start: Constants to scale.
        models: Their number.
        measured: Number formats in which they ran: fp16 beside another tells its own rate, which
            is what chips of a class differ in most (8 bits are 3 to 8 times as fast on Qualcomm's).
    """
    formats = tuple(start.macs_per_s)
    vector = ("vector",) if start.softmax_per_s is None else ("vector", "softmax")
    given = ("start",) if start.handed_per_s is None else ("start", "handed")
    if models >= MANY:
        alone = tuple((f,) for f in formats)
        return (given, vector, ("activation",), ("ahead",), *alone)
    apart = ("fp16",) if _tells_fp16(start, models, measured) else ()
    others = (*vector, *(f for f in formats if f not in apart))
    found: tuple[Scale, ...]
    if models < 2:
        found = ((*given, *others, "activation", "ahead"), apart)
    elif models < 4:
        found = ((*given, *others), apart, ("activation", "ahead"))
    else:
        found = (given, apart, others, ("activation", "ahead"))
    return tuple(filter(None, found))


def _tells_fp16(start: TiledConstants, models: int, measured: Collection[str]) -> bool:
    known = start.macs_per_s.keys()
    if "fp16" not in known or len(known) < 2:
        return False
    return models >= 4 or {"fp16"} < set(measured)


def pull_of(models: int) -> float:
    """How much the start counts beside so many models."""
    return 0.05 if models >= MANY else FEW_PULL


class MeasuredRuns:
    """Measured runs as arrays.

    Args:
        measured: At least one.
    """

    def __init__(self, measured: Sequence[MeasuredRun]) -> None:
        runs = [m.run for m in measured]
        sizes = [len(r.groups) for r in runs]
        self.measured = tuple(measured)
        self.seconds = np.array([m.seconds for m in measured])
        self._first = np.cumsum([0, *sizes])[:-1]
        self._sizes = sizes
        self._runs = runs
        self._formats = [r.formats[0] for r in runs]
        own = np.repeat(self._formats, sizes)
        macs = _joined(r.sums("macs") for r in runs)
        self._macs = {f: np.where(own == f, macs, 0.0) for f in set(self._formats)}
        self._vector = _joined(r.sums("vector") for r in runs)
        self._softmax = _joined(r.sums("softmax") for r in runs)
        self._moved = _joined(r.sums("moved_bytes") for r in runs)
        self._counts = _joined(r.counts for r in runs)
        self._ahead = np.array([r.ahead_bytes for r in runs])
        self._late = np.array([r.late_bytes for r in runs])

    def predicted(self, c: TiledConstants) -> Floats:
        """Expected seconds of each run."""
        busy = seconds(self._vector, c.vector_per_s) + seconds(self._softmax, c.softmax_rate)
        for name, macs in self._macs.items():
            busy = busy + seconds(macs, c.macs_per_s[name])
        found = [pace(c, run) for run in self._runs]
        longer, kept, waits = np.array([(p.longer, p.kept_bytes, p.waits) for p in found]).T
        each = np.repeat(np.arange(len(found)), self._sizes)
        left = maximum(self._moved * longer[each] - kept[each], 0)
        moving = seconds(left, c.activation_byte_per_s) * waits[each]
        busy = busy * longer[each]
        groups: Floats = np.add.reduceat(maximum(busy, moving) * self._counts, self._first)
        chip = loaded(groups, self._ahead, self._late, c.ahead_byte_per_s / waits)
        starts = [start_of(c, run) for run in self._runs]
        whole = [p.whole(start, one)[0] for p, start, one in zip(found, starts, chip, strict=True)]
        return np.array(whole, dtype=float)

    def without(self, model: str) -> MeasuredRuns:
        """Those of other models."""
        return MeasuredRuns([m for m in self.measured if m.model != model])

    def only(self, model: str) -> MeasuredRuns:
        """Those of one model."""
        return MeasuredRuns([m for m in self.measured if m.model == model])

    @property
    def formats(self) -> frozenset[str]:
        """Number formats in which they ran."""
        return frozenset(self._formats)

    @property
    def models(self) -> tuple[str, ...]:
        """Each once, in alphabetical order."""
        return tuple(sorted({m.model for m in self.measured}))


def fit(
    start: TiledConstants, runs: MeasuredRuns, scales: Sequence[Scale], pull: Pull = 0.05
) -> TiledConstants:
    """The constants that describe runs best.

    Args:
        start: Constants to scale.
        runs: Measured, in formats that ``start`` knows.
        scales: What is scaled; a constant that is in none stays.
        pull: Weight of a factor of e from the start, relative to such a residual; of all scales,
            or of each.
    """

    def residuals(x: Floats) -> Floats:
        found: Floats = np.log(runs.predicted(scaled(start, scales, x)) / runs.seconds)
        return found

    return scaled(start, scales, minimized(residuals, len(scales), pull))


def minimized(residuals: Callable[[Floats], Floats], count: int, pull: Pull = 0.05) -> Floats:
    """The point near zero at which residuals are least, large ones counting less.

    Args:
        residuals: Of a point.
        count: Of its coordinates.
        pull: Weight of a distance of 1 from zero, of all coordinates or of each.
    """

    def loss(x: Floats) -> float:
        r = residuals(x)
        soft = 2 * _LARGE**2 * (np.sqrt(1 + (r / _LARGE) ** 2) - 1)
        return float(soft.sum() + ((each * x) ** 2).sum())

    each = np.broadcast_to(np.asarray(pull), (count,))
    x: Floats = np.zeros(count)
    best = loss(x)
    for _ in range(_ROUNDS):
        step = _step(x, residuals, each)
        tries = [(loss(x + s * step), s) for s in (1.0, 0.5, 0.2, 0.05)]
        least, shrink = min(tries)
        if least >= best:
            break
        done = best - least < 1e-7 * best
        x, best = x + shrink * step, least
        if done:
            break
    return x


def left_out(
    start: TiledConstants, runs: MeasuredRuns, scales: Sequence[Scale], pull: Pull = 0.05
) -> tuple[float, ...]:
    """Measured over predicted of every run, by constants from the other models."""
    ratios: dict[int, float] = {}
    for model in runs.models:
        constants = fit(start, runs.without(model), scales, pull)
        own = runs.only(model)
        found = own.seconds / own.predicted(constants)
        places = [i for i, m in enumerate(runs.measured) if m.model == model]
        ratios.update(zip(places, map(float, found), strict=True))
    return tuple(ratios[i] for i in range(len(runs.measured)))


def scaled(start: TiledConstants, scales: Sequence[Scale], x: Floats) -> TiledConstants:
    """Constants after a change; a rate grows with its scale, the start of an inference shrinks."""
    factor = {name: float(np.exp(v)) for names, v in zip(scales, x, strict=True) for name in names}

    def of(name: str) -> float:
        return factor.get(name, 1.0)

    flight = start.flight
    if flight is not None:
        fed = min(max(flight.fed * of("shared"), 1.0), flight.calls)
        flight = msgspec.structs.replace(flight, fed=fed)
    return msgspec.structs.replace(
        start,
        flight=flight,
        start_s={k: v / of("start") / of(f"start:{k}") for k, v in start.start_s.items()},
        macs_per_s={k: v * of(k) for k, v in start.macs_per_s.items()},
        vector_per_s=start.vector_per_s * of("vector"),
        softmax_per_s=start.softmax_per_s and start.softmax_per_s * of("softmax"),
        handed_per_s=start.handed_per_s and start.handed_per_s * of("handed"),
        activation_byte_per_s=start.activation_byte_per_s * of("activation"),
        ahead_byte_per_s=start.ahead_byte_per_s * of("ahead"),
    )


def _step(x: Floats, residuals: Callable[[Floats], Floats], pull: Floats) -> Floats:
    """Gauss-Newton on residuals that are weighted by how large they are now."""
    r = residuals(x)
    weight = (1 + (r / _LARGE) ** 2) ** -0.25
    columns = []
    for i in range(len(x)):
        moved = x.copy()
        moved[i] += 1e-4
        columns.append((residuals(moved) - r) / 1e-4)
    jacobian = np.vstack([np.array(columns).T * weight[:, None], np.diag(pull)])
    right = np.concatenate([r * weight, pull * x])
    found: Floats = np.linalg.lstsq(jacobian, -right, rcond=None)[0]
    return np.clip(found, -1.0, 1.0)


def _joined(parts: Any) -> Floats:
    return np.concatenate([np.asarray(p, dtype=float) for p in parts])
