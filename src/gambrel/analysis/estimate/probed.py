"""Expected times from kernels that were measured on the machine itself, by class of op.

A formula with constants describes how a GPU runs a kernel. On a CPU every class of op has its own
library kernel with its own efficiency, which no ceiling predicts: a 1×1 convolution may run at a
third of the peak and a depthwise one at a thirtieth. So each class is measured at a few sizes, and
what lies between is interpolated: a linear regression of log(time / bound) on the logarithms of the
sizes, in which near measurements weigh most.

Results on pages that were never touched cost their own time, whatever the kernel.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from gambrel.analysis.estimate.classes import FRESH_KEY, candidates, features_of, fresh_bytes
from gambrel.ops import Cost, OpView

#: Factor of two in each size: measurements so far apart weigh 1 / sqrt(e) of a near one.
_NEAR: Final = 1.5
#: Pull of slopes towards zero: efficiency, not time, is what varies slowly.
_RIDGE: Final = 0.05
#: A logarithm of time this far from its neighbours counts half; how often that is refined.
_STRAY: Final = 0.3
_TURNS: Final = 4
#: A class whose measurements spread wider (high / low) is less certain, from the second on little.
WIDE: Final = (3.0, 10.0)
#: Fewer points of a class are no calibration.
FEW: Final = 4
#: From so many on the result is certain.
MANY: Final = 8
#: Share of the measured times that the range leaves out at either end.
_OUTSIDE: Final = 0.05


class Probed(msgspec.Struct, frozen=True, kw_only=True):
    """One class of op, as it was measured on one machine.

    Attributes:
        device: Name of the device.
        key: Class and number format, see `key_of`.
        features: Of each measurement, see `features_of`.
        rooflines_s: Bound of each on the device's roofs.
        seconds: Measured time of each.
        start_s: Time of the smallest: starting the call.
        low: Lower end of measured / predicted, each measurement predicted from the others.
        high: Upper end.
        notes: Threads, versions.
    """

    device: str
    key: str
    features: tuple[tuple[float, ...], ...]
    rooflines_s: tuple[float, ...]
    seconds: tuple[float, ...]
    start_s: float
    low: float = 1.0
    high: float = 1.0
    notes: str = ""

    @property
    def points(self) -> int:
        """Number of measurements."""
        return len(self.seconds)


def fresh_seconds(probed: Probed, nbytes: float) -> float:
    """What the first touch of so many bytes adds: the median of what was measured per byte."""
    each = sorted(s / 2.0 ** f[0] for f, s in zip(probed.features, probed.seconds, strict=True))
    return nbytes * float(each[len(each) // 2])


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """The time of one execution, from a class that was measured.

    Attributes:
        probed: The class.
        exact: Whether it is the op's own.
        seconds: Expected time.
        start_s: Part of it that is the start of the call.
        fresh_s: Part of it that is the first touch of fresh pages.
    """

    probed: Probed
    exact: bool
    seconds: float
    start_s: float
    fresh_s: float = 0.0

    @property
    def reason(self) -> str:
        """Where the time comes from, for the reader."""
        fresh = "; its results lie on fresh pages" if self.fresh_s else ""
        return f"kernels of {self.probed.key.partition(':')[0]} measured on this machine{fresh}"


def measured(
    classes: Mapping[str, Probed], view: OpView, cost: Cost, roofline_s: float, variant: str = ""
) -> Found | None:
    """The time of an op that is a library call of its own.

    Args:
        classes: That were measured, by key.
        view: The op.
        cost: Of one execution.
        roofline_s: Likewise.
        variant: Of the class.

    Returns:
        None where neither the class nor one like it was measured.
    """
    keys = candidates(view, cost, variant)
    found = next((classes[k] for k in keys if k in classes), None)
    features = features_of(view, cost)
    if found is None or features is None or len(features) != len(found.features[0]):
        return None
    touch = classes.get(FRESH_KEY)
    fresh = fresh_seconds(touch, fresh_bytes(view, variant)) if touch is not None else 0.0
    return Found(
        probed=found,
        exact=found.key == keys[0],
        seconds=predict(found, features, roofline_s) + fresh,
        start_s=found.start_s,
        fresh_s=fresh,
    )


def confidence_of(probed: Probed, exact: bool) -> str:
    """How certain a class is: by its spread, its points, and whether it is the op's own."""
    width = probed.high / probed.low
    if width > WIDE[1]:
        return "low"
    return "high" if exact and width <= WIDE[0] and probed.points >= MANY else "medium"


def predict(probed: Probed, features: Sequence[float], roofline_s: float) -> float:
    """The expected seconds of an op of a class.

    Args:
        probed: The class.
        features: Of the op.
        roofline_s: Of the op on the device's roofs.
    """
    return _regress(
        probed.features, probed.rooflines_s, probed.seconds, probed.start_s, features, roofline_s
    )


def _regress(
    rows: Sequence[Sequence[float]],
    bounds: Sequence[float],
    seconds: Sequence[float],
    start: float,
    at: Sequence[float],
    bound: float,
) -> float:
    import numpy as np

    offsets = np.asarray(rows, dtype=float) - np.asarray(at, dtype=float)
    base = np.asarray(bounds, dtype=float) + start
    ratios = np.log(np.asarray(seconds, dtype=float) / base)
    distance = (offsets**2).sum(axis=1)
    # However far the nearest lies, it counts in full: only differences of distance matter.
    weights = np.exp(-(distance - distance.min()) / (2 * _NEAR**2))
    columns = np.hstack([np.ones((len(offsets), 1)), offsets])
    ridge = np.diag([1e-9, *[_RIDGE * weights.sum()] * offsets.shape[1]])
    trusted, fitted = weights, ratios
    for _ in range(_TURNS):
        left = columns.T @ (columns * trusted[:, None]) + ridge
        fitted = np.linalg.solve(left, columns.T @ (trusted * ratios))
        # A measurement that something else disturbed lies far from its neighbours.
        trusted = weights / (1 + ((ratios - columns @ fitted) / _STRAY) ** 2)
    found = float(fitted[0])
    # Beyond all measurements a slope must not run away.
    found = min(max(found, float(ratios.min()) - 0.5), float(ratios.max()) + 0.5)
    return (bound + start) * math.exp(found)


def fit(
    device: str,
    key: str,
    rows: Sequence[tuple[Sequence[float], float, float]],
    notes: str = "",
) -> Probed:
    """A class from its measurements.

    Args:
        device: Name.
        key: Class and number format.
        rows: Features, bound and measured seconds of each.
        notes: Threads, versions.
    """
    features = tuple(tuple(f) for f, _, _ in rows)
    bounds, seconds = tuple(b for _, b, _ in rows), tuple(s for _, _, s in rows)
    start = min(seconds)
    left_out = [
        seconds[i]
        / _regress(
            [*features[:i], *features[i + 1 :]],
            [*bounds[:i], *bounds[i + 1 :]],
            [*seconds[:i], *seconds[i + 1 :]],
            start,
            features[i],
            bounds[i],
        )
        for i in range(len(rows))
        if len(rows) > 1
    ] or [1.0]
    left_out.sort()
    cut = int(_OUTSIDE * len(left_out))
    return Probed(
        device=device,
        key=key,
        features=features,
        rooflines_s=bounds,
        seconds=seconds,
        start_s=start,
        low=min(1.0, left_out[cut]),
        high=max(1.0, left_out[-1 - cut]),
        notes=notes,
    )
