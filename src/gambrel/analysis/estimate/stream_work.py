"""What a chip that streams frames has to do: work by kind of layer, weights, layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from gambrel.analysis.estimate.tiled_work import is_depthwise, needs_row
from gambrel.ops import OpView
from gambrel.ops.base import Engine, product

if TYPE_CHECKING:
    from gambrel.analysis.costs import CostTable, Item

#: Kinds of work.
WINDOW, POINT, DEPTHWISE, NORM, OUTPUT = "window", "point", "depthwise", "norm", "output"
POOL: Final = "pool"
#: Changes of layout of an attention that is spelled out as matmuls and a softmax.
_OF_ATTENTION: Final = 4
_ON_THE_WAY: Final = frozenset({"cat", "stack", "cast", "pad"})
_LAYERS: Final = frozenset({"convolution", "matmul"})
_JOINS: Final = frozenset({"cat", "stack"})


class StreamWork(msgspec.Struct, frozen=True, kw_only=True):
    """The work of all frames of a run.

    Attributes:
        items: Of each item of the table, one execution: kind of work → multiply-adds or elements.
        counts: Executions of each item.
        weights: Of each item.
        totals: Kind of work → sum over the run.
        all_weights: Sum over the network.
        layers: Convolutions, linear layers and products of an attention in the network.
        stages: These, poolings, joins and changes of resolution: what has a place of its own.
        norms: Norms and softmaxes that need a whole row.
        moves: Changes of layout and norms that need a whole map before anything can follow.
        frames: Frames in the run.
        passed: Elements of one frame's inputs and outputs.
        dtype: Number format; empty where there are several, or none.
    """

    items: tuple[dict[str, float], ...]
    counts: tuple[int, ...]
    weights: tuple[float, ...]
    totals: dict[str, float]
    all_weights: float
    layers: int
    stages: int
    norms: int
    moves: int
    frames: float
    passed: float
    dtype: str


def stream_work(table: CostTable) -> StreamWork:
    """What a table asks of a chip that streams frames."""
    views = [item.view for item in table.items]
    formats = {d for item in table.items for engine, d in item.cost.work if engine is Engine.MATRIX}
    frames = next((float(v.size("batch")) for v in views if v.kind == "convolution"), 1.0)
    items = tuple(_work(item) for item in table.items)
    counts = tuple(item.count for item in table.items)
    weights = tuple(_weights(view) for view in views)
    totals: dict[str, float] = {}
    for work, count in zip(items, counts, strict=True):
        for kind, n in work.items():
            totals[kind] = totals.get(kind, 0.0) + n * count
    return StreamWork(
        items=items,
        counts=counts,
        weights=weights,
        totals=totals,
        all_weights=sum(w * n for w, n in zip(weights, counts, strict=True)),
        layers=sum(_layers(item.view) * item.count for item in table.items),
        stages=sum(_stages(item.view) * item.count for item in table.items),
        norms=sum(_is_norm(item.view) * item.count for item in table.items),
        moves=_moves(table.items),
        frames=frames,
        passed=_passed([place.view for place in table.places]) / frames,
        dtype=formats.pop() if len(formats) == 1 else "",
    )


def _work(item: Item) -> dict[str, float]:
    view = item.view
    macs = sum(n for (engine, _), n in item.cost.work.items() if engine is Engine.MATRIX) / 2
    found = {_kind(view): float(macs)} if macs else {}
    if view.kind == "attention":
        pairs = view.size("batch") * view.size("heads") * view.size("q_len") * view.size("kv_len")
        found[NORM] = float(pairs)
    elif _is_norm(view):
        found[NORM] = float(view.size("elements"))
    elif view.kind in _LAYERS:
        found[OUTPUT] = float(sum(t.elements for t in view.outputs))
    elif view.kind == "pooling":
        found[POOL] = float(sum(t.elements for t in view.outputs))
    return found


def _passed(views: Sequence[OpView]) -> float:
    """Elements of the model's inputs, and of what no op reads."""
    read = {t.storage for view in views for t in view.inputs}
    results = sum(t.elements for v in views for t in v.outputs if t.storage not in read)
    given = max((_given(view) for view in views), default=0.0)
    return float(given + results)


def _given(view: OpView) -> float:
    """Elements of an input of the model; a slice of it beside others counts for itself."""
    slices = {(t.storage, t.offset): t.elements for t in view.inputs if t.role == "input"}
    return float(sum(slices.values()))


def _kind(view: OpView) -> str:
    if view.kind != "convolution":
        return POINT
    if is_depthwise(view):
        return DEPTHWISE
    return WINDOW if product(view.size("kernel")) > 1 else POINT


def _layers(view: OpView) -> int:
    return 3 if view.kind == "attention" else int(view.kind in _LAYERS)


def _stages(view: OpView) -> int:
    joins = view.kind == "copy" and view.attrs.get("function") in _JOINS
    return _layers(view) + int(joins or view.kind in ("pooling", "interpolation"))


def _is_norm(view: OpView) -> bool:
    if view.kind == "normalization":
        return bool(view.attrs.get("statistics", True))
    if view.kind == "softmax":  # one over a few channels is done pixel by pixel
        return needs_row(view)
    return view.kind == "attention"


def _moves(items: Sequence[Item]) -> int:
    """Without those of an attention, which are part of it as where it is a single op."""
    moves = sum(_is_move(i.view) * i.count for i in items)
    spelled_out = sum(i.count for i in items if i.view.kind == "softmax")
    return max(0, moves - _OF_ATTENTION * spelled_out)


def _is_move(view: OpView) -> bool:
    """Padding, joining and changes of format are done on the way."""
    if view.kind == "normalization":
        return view.attrs.get("function") == "group_norm"
    return view.kind == "copy" and view.attrs.get("function") not in _ON_THE_WAY


def _weights(view: OpView) -> float:
    if view.kind not in _LAYERS:
        return 0.0
    return float(sum(t.elements for t in view.inputs if t.role == "weight"))
