"""Expected times of a compiled model from kernels measured on the machine itself.

Products, convolutions and attention are calls of the library, convolutions with channels last:
torch's compiler lays them out so on every CPU, and copies their weights in every run. All else are
loops that the compiler writes. A loop takes what its ops compute and what it moves, so an op within
it takes

    what it computes + its share of the traffic

where the first is what the op alone takes beyond a loop that moves as much and computes nothing to
speak of (an addition). Of an op alone this is exactly what was measured.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from gambrel import roofline
from gambrel.analysis.estimate import probed
from gambrel.analysis.estimate.classes import LAST, WRITTEN, candidates
from gambrel.analysis.estimate.probed import Found, Probed, predict
from gambrel.ops import Cost, OpView, base
from gambrel.ops.base import product

if TYPE_CHECKING:
    from gambrel.analysis.roofs import Roofs

#: The class of copying a convolution's weights to channels last.
RELAID: Final = "copy.relaid"
#: A loop that computes nothing to speak of.
_MOVING: Final = "elementwise.add"
#: Kinds that the compiler writes as loops.
_LOOPS: Final = frozenset(
    {"elementwise", "copy", "normalization", "softmax", "reduction", "pooling", "embedding"}
    | {"gather", "fill"}
)


def written_key(name: str, dtype: str) -> str:
    """The key of a loop of the compiler."""
    return f"{name}@{WRITTEN}:{dtype}"


def measured(
    classes: Mapping[str, Probed], view: OpView, cost: Cost, roofline_s: float, roofs: Roofs
) -> Found | None:
    """The time of an op of a compiled model.

    Args:
        classes: That were measured, by key.
        view: The op.
        cost: Of one execution within its kernel: the traffic that is left to it.
        roofline_s: Likewise.
        roofs: Of the device.

    Returns:
        None where neither the class nor one like it was measured.
    """
    if view.kind in _LOOPS:
        found = _within_loop(classes, view, cost, roofs)
        return found or probed.measured(classes, view, cost, roofline_s)
    if view.kind != "convolution":
        return probed.measured(classes, view, cost, roofline_s)
    found = probed.measured(classes, view, cost, roofline_s, LAST)
    if found is None:
        return None
    relaid = _moved(classes, RELAID, view.inputs[1].dtype, 2.0 * relaid_bytes(view), roofs)
    return msgspec.structs.replace(found, seconds=found.seconds + relaid)


def relaid_bytes(view: OpView) -> float:
    """Bytes of a convolution that are copied to channels last in every run.

    Its weights, unless both layouts are the same (one place, or one channel a group), and an image
    that is the model's input.
    """
    x, weight = view.inputs[:2]
    places, channels = product(weight.shape[2:]), weight.shape[1]
    weights = weight.nbytes if places > 1 and channels > 1 and weight.role == "weight" else 0
    return float(weights + (x.nbytes if x.role == "input" else 0))


def _within_loop(
    classes: Mapping[str, Probed], view: OpView, cost: Cost, roofs: Roofs
) -> Found | None:
    alone = base.cost(view)
    moving = _class_of(classes, _MOVING, view.operand_dtype(2))
    if alone is None or moving is None or not roofs.memory_byte_per_s:
        return None
    keys = [k for k in candidates(view, alone, WRITTEN) if f"@{WRITTEN}:" in k]
    found = next((classes[k] for k in keys if k in classes), None) or moving
    whole = float(alone.read_bytes + alone.write_bytes)
    left = float(cost.read_bytes + cost.write_bytes)
    move = _stream(moving, whole, roofs)
    computing = max(0.0, _stream(found, whole, roofs) - move)
    # A kernel that moves more than its op (statistics, another pass) moves it at the same rate.
    moved = max(0.0, move - moving.start_s) * (left / whole if whole else 0.0)
    return Found(
        probed=found,
        exact=found.key == keys[0],
        seconds=moving.start_s + computing + moved,
        start_s=moving.start_s,
    )


def _moved(
    classes: Mapping[str, Probed], name: str, dtype: str, nbytes: float, roofs: Roofs
) -> float:
    found = _class_of(classes, name, dtype) or _class_of(classes, _MOVING, dtype)
    return _stream(found, nbytes, roofs) if found is not None and nbytes else 0.0


def _class_of(classes: Mapping[str, Probed], name: str, dtype: str) -> Probed | None:
    return classes.get(written_key(name, dtype)) or classes.get(written_key(name, "fp32"))


def _stream(found: Probed, nbytes: float, roofs: Roofs) -> float:
    """Seconds of a loop of a class that moves so many bytes."""
    bandwidth = roofs.memory_byte_per_s or math.inf
    return predict(found, (math.log2(max(nbytes, 1.0)),), roofline.seconds(nbytes, bandwidth))
