"""Ways to the same result with fewer operations than are counted, and how many they may save."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from math import prod
from typing import Final

from msgspec.structs import replace

from gambrel.analysis.compulsory import SolPart, add_work, fastest_way
from gambrel.analysis.costs import CostTable, Place
from gambrel.ops import OpView
from gambrel.ops.base import Engine, TensorView
from gambrel.units import format_percent

#: Share of the matrix work from which on a way around it is named, and withholds a proof.
_DECIDING: Final = 0.05
_WINOGRAD: Final = "winograd"
_PADDING: Final = "padding"
LENGTHS: Final = "masked or padded tokens need not be computed"
_SAID: Final = {
    _WINOGRAD: "by Winograd's algorithm or FFT convolutions at stride 1 multiply less, "
    "saving at most {} of the work",
    _PADDING: "positions of zero padding need not be multiplied, {} of the work",
}


def shortcuts(table: CostTable) -> tuple[str, ...]:
    """Sentences on the ways that matter, each with the share of the matrix work that it may save.

    Args:
        table: Of the workload, at one point.
    """
    found = [_SAID[cause].format(format_percent(share)) for cause, share in _saved(table).items()]
    attends = any(place.view.kind == "attention" for place in _placed(table))
    return (*found, *([LENGTHS] if attends else []))


def multiplies_less(table: CostTable) -> bool:
    """Whether another algorithm may reach the result of convolutions with fewer products."""
    return _WINOGRAD in _saved(table)


def _saved(table: CostTable) -> dict[str, float]:
    """Of the ways around convolutions that matter, the share of the matrix work that each saves."""
    return table.once("saved", lambda: _saving(table))


def _saving(table: CostTable) -> dict[str, float]:
    touched: dict[str, float] = defaultdict(float)
    saved: dict[str, float] = defaultdict(float)
    whole = 0.0
    for place in _placed(table):
        flops = _matrix_flops(table, place)
        whole += flops
        for cause, kept in _kept(place.view).items():
            touched[cause] += flops
            saved[cause] += flops * (1 - kept)
    named = (cause for cause in (_WINOGRAD, _PADDING) if touched[cause] > _DECIDING * whole)
    return {cause: saved[cause] / whole for cause in named}


def fewest_operations(table: CostTable) -> tuple[SolPart, ...]:
    """What no run can avoid, less all that the ways around a convolution may save.

    Masked and padded tokens are no part of it: how many there are is not known.

    Args:
        table: Of the workload, at one point.
    """
    return table.once("fewest", lambda: _fewest(table))


def _fewest(table: CostTable) -> tuple[SolPart, ...]:
    names = {part.name for part in table.sol_parts}
    less: dict[str, dict[tuple[str, str, bool], float]] = {name: {} for name in names}
    for place in _placed(table):
        kept = min(_kept(place.view).values(), default=1.0)
        if kept == 1.0 or place.item is None:
            continue
        work: dict[tuple[str, str, bool], float] = {}
        add_work(work, fastest_way(place.view, table.items[place.item].cost), place.op.repeat)
        own = less[place.op.module.partition(":")[0] if "" not in names else ""]
        for key, flops in work.items():
            if key[0] == Engine.MATRIX:
                own[key] = own.get(key, 0.0) + flops * (1 - kept)
    return tuple(
        replace(part, work={k: max(0.0, n - own.get(k, 0.0)) for k, n in part.work.items()})
        for part in table.sol_parts
        for own in [less[part.name]]
    )


def without_tokens(parts: Sequence[SolPart]) -> tuple[SolPart, ...]:
    """The parts where every token may be masked: nothing but traffic is left."""
    return tuple(replace(part, work={}) for part in parts)


def _placed(table: CostTable) -> list[Place]:
    return [place for place in table.places if place.item is not None]


def _matrix_flops(table: CostTable, place: Place) -> float:
    assert place.item is not None  # of `_placed`
    work = table.items[place.item].cost.work
    return float(sum(n for (e, _), n in work.items() if e is Engine.MATRIX) * place.op.repeat)


def _kept(view: OpView) -> Mapping[str, float]:
    """Ways around the arithmetic of a convolution: the share of it that each leaves at the least.

    Winograd's algorithm and transforms need one multiplication per output and input channel at the
    least (S. Winograd, Arithmetic Complexity of Computations, SIAM 1980: m + r - 1 for m outputs
    of r taps in each dimension), which also covers padding of dilated windows. Of the gradients
    of weights the taps are the outputs.
    """
    images = _images(view)
    kernel = tuple(view.sizes.get("kernel", ()))
    if images is None or not any(k > 1 for k in kernel):
        return {}
    ends = images[0].shape[2:], images[1].shape[2:]
    plain = not view.attrs.get("transposed") and view.size("groups", 1) == 1
    winograd = {_WINOGRAD: 1 / prod(kernel)} if plain and ends[0] == ends[1] else {}
    if view.attrs.get("transposed"):
        ends = ends[1], ends[0]
    inside = [_inside(*sizes) for sizes in zip(kernel, *ends, strict=False)]
    return {**winograd, _PADDING: prod(inside)}


def _images(view: OpView) -> tuple[TensorView, TensorView] | None:
    """What goes into a convolution and what comes out, also of one whose gradients are made."""
    if view.kind == "convolution" and view.inputs and view.outputs:
        return view.inputs[0], view.outputs[0]
    if view.kind == "convolution_backward" and len(view.inputs) > 1:
        return view.inputs[1], view.inputs[0]
    return None


def _inside(taps: int, inputs: int, outputs: int) -> float:
    """Share of the taps of undilated windows along a dimension that fall on the input.

    Args:
        taps: Of a window.
        inputs: Places of the input.
        outputs: Windows, whose stride is the smallest with which they reach over the input.
    """
    stride = 1
    while (outputs - 1) * stride + taps < inputs - (stride - 1):
        stride += 1
    before = -(-max(0, (outputs - 1) * stride + taps - inputs) // 2)
    hits = 0
    for tap in range(taps):
        first, last = -((tap - before) // stride), (inputs - 1 - tap + before) // stride
        hits += max(0, min(outputs - 1, last) - max(0, first) + 1)
    return hits / (taps * outputs)
