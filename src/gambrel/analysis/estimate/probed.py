"""Expected times from kernels that were measured on the machine itself, by class of op.

A formula with constants describes how a GPU runs a kernel. On a CPU every class of op has its own
library kernel with its own efficiency, which no ceiling predicts: a 1×1 convolution may run at a
third of the peak and a depthwise one at a thirtieth. So each class is measured at a few sizes, and
what lies between is interpolated: a linear regression of log(time / bound) on the logarithms of the
sizes, in which near measurements weigh most.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from gambrel.ops import Cost, OpView
from gambrel.ops.base import Engine, product

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
        bounds_s: Bound of each on the device's roofs.
        seconds: Measured time of each.
        start_s: Time of the smallest: starting the call.
        low: Lower end of measured / predicted, each measurement predicted from the others.
        high: Upper end.
        notes: Threads, versions.
    """

    device: str
    key: str
    features: tuple[tuple[float, ...], ...]
    bounds_s: tuple[float, ...]
    seconds: tuple[float, ...]
    start_s: float
    low: float = 1.0
    high: float = 1.0
    notes: str = ""

    @property
    def points(self) -> int:
        """Number of measurements."""
        return len(self.seconds)


def key_of(view: OpView) -> str:
    """The class of an op: what one library kernel serves, with the number format."""
    return f"{_class(view)}:{view.operand_dtype(2)}"


def _class(view: OpView) -> str:
    kind, function = view.kind, str(view.attrs.get("function") or "")
    if kind == "matmul":
        return "bmm" if _size(view, "b") > 1 else "matmul"
    if kind == "convolution" and not view.attrs.get("transposed"):
        return _convolution(view)
    if kind == "attention":
        return "attention.causal" if view.attrs.get("causal") else "attention"
    if kind == "elementwise":
        return f"elementwise.{function}{'!' if _in_place(view) else ''}"
    return f"{kind}.{function}" if function else kind


def _convolution(view: OpView) -> str:
    groups = _size(view, "groups")
    if groups > 1:
        return (
            "convolution.depthwise" if groups == view.size("in_channels") else "convolution.grouped"
        )
    return "convolution.1x1" if product(view.size("kernel")) == 1 else "convolution.kxk"


def _in_place(view: OpView) -> bool:
    written = {t.storage for t in view.outputs}
    return any(t.storage in written for t in view.inputs)


def _size(view: OpView, name: str) -> Any:
    return view.size(name, 1)


#: Classes that stand in for one that was not measured.
_LIKE: Final[Mapping[str, tuple[str, ...]]] = {
    "elementwise": ("elementwise.mul", "elementwise.add"),
    "elementwise!": ("elementwise.relu!", "elementwise.add"),
    "elementwise special": ("elementwise.gelu", "elementwise.tanh", "elementwise.add"),
    "attention": ("attention",),
    "copy": ("copy.cat", "copy.clone", "elementwise.add"),
    "normalization": ("normalization.layer_norm",),
    "reduction": ("reduction.mean",),
    "pooling": ("pooling.max",),
    "gather": ("embedding",),
    "convolution.grouped": ("convolution.kxk",),
}


def candidates(view: OpView, cost: Cost) -> tuple[str, ...]:
    """Keys under which an op may have been measured: its own, then those of its kin."""
    own, dtype = key_of(view).split(":")
    family = own.partition(".")[0]
    if family == "elementwise":
        special = any(n for (engine, _), n in cost.work.items() if engine is Engine.SPECIAL)
        family = "elementwise special" if special else family + ("!" if own.endswith("!") else "")
    like = _LIKE.get(own, _LIKE.get(family, ()))
    formats = dict.fromkeys((dtype, "fp32"))
    return tuple(f"{name}:{fmt}" for fmt in formats for name in (own, own.rstrip("!"), *like))


def features_of(view: OpView, cost: Cost) -> tuple[float, ...] | None:
    """Logarithms to the base of two of what the time of a class depends on.

    Returns:
        None where a size is no plain number (a sweep).
    """
    sizes = _sizes(view, cost)
    if not all(isinstance(s, int | float) for s in sizes):
        return None
    return tuple(math.log2(max(float(s), 1.0)) for s in sizes)


def _sizes(view: OpView, cost: Cost) -> tuple[Any, ...]:
    if view.kind == "matmul":
        return tuple(_size(view, name) for name in "bmnk")
    if view.kind == "convolution":
        groups = _size(view, "groups")
        return (
            _size(view, "batch"),
            product(view.size("spatial")),
            view.size("in_channels") / groups,
            view.size("out_channels") / groups,
            groups,
            product(view.size("kernel")),
        )
    if view.kind == "attention":
        heads = view.size("batch") * view.size("heads")
        return (heads, view.size("q_len"), view.size("kv_len"), view.size("head_dim"))
    return (cost.read_bytes + cost.write_bytes,)


def confidence_of(probed: Probed, exact: bool) -> str:
    """How certain a class is: by its spread, its points, and whether it is the op's own."""
    width = probed.high / probed.low
    if width > WIDE[1]:
        return "low"
    return "high" if exact and width <= WIDE[0] and probed.points >= MANY else "medium"


def predict(probed: Probed, features: Sequence[float], bound_s: float) -> float:
    """The expected seconds of an op of a class.

    Args:
        probed: The class.
        features: Of the op.
        bound_s: Of the op on the device's roofs.
    """
    return _regress(
        probed.features, probed.bounds_s, probed.seconds, probed.start_s, features, bound_s
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
        bounds_s=bounds,
        seconds=seconds,
        start_s=start,
        low=min(1.0, left_out[cut]),
        high=max(1.0, left_out[-1 - cut]),
        notes=notes,
    )
