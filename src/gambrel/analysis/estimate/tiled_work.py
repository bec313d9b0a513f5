"""What a compiler for an NPU has to run: padded multiply-adds, vector work, bytes, group by group.

A *group* is a kernel of the fusion: a convolution, linear layer or attention with what follows it
element by element, or a norm, a softmax, a change of layout by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from gambrel.dtypes import STORED_WEIGHT, width_bytes
from gambrel.ops import OpView, TensorView, cost
from gambrel.ops.attention import visible_pairs
from gambrel.ops.base import (
    Engine,
    Size,
    ceil_div,
    distinct_bytes,
    holds,
    is_zero,
    largest_first,
    minimum,
    product,
    real,
    total,
)
from gambrel.ops.elementwise import FUNCTIONS
from gambrel.roofline import maximum
from gambrel.runtimes import UnitTiling

if TYPE_CHECKING:
    from gambrel.analysis.costs import CostTable, Item

#: Vector work per element of a value, in elements of 16 bits. Fitted once, on three Qualcomm chips
#: together (quic/ai-hub-models @52c080d2, 2026-11-22), and the same for all chips. That of a
#: function is the compiler's (`gambrel.runtimes.UnitTiling`).
NORM, SOFTMAX, MOVE, RESIDUAL = 3.0, 3.0, 1.0, 0.3
#: Weights of a group beyond this have no room on chip while the group before it computes: nothing
#: hides their loading. Without it VGG-16 on AXERA's chips comes out 1.4 to 1.9 times too fast; from
#: 2 to 8 MB fit Qualcomm's and AXERA's chips equally well.
AHEAD_BYTES: Final = 4_000_000
#: Dimensions that a change of order takes at the most; one of more moves each element by itself
#: unless the graph is quantized (SAM 2's encoder in int8 takes what its other work does).
_DIMENSIONS: Final = 5
#: Values of a row that are at hand together: a detector's box distribution has 16.
_FEW: Final = 16
#: Loaded ahead: they are in memory before the run.
_AHEAD: Final = frozenset({"input", "kv_cache", "state"})
_PRODUCTS: Final = frozenset({"convolution", "matmul", "attention"})
_QUANTIZED: Final = frozenset({"int8", "int16"})
#: Inputs of graphs that are not quantized.
_FULL: Final = "fp32"
_CONSTANT: Final = frozenset({"weight", "buffer", "constant"})


class TiledWork(msgspec.Struct, frozen=True, kw_only=True):
    """One execution of an item of a cost table.

    Attributes:
        macs: Multiply-adds after padding.
        dtype: Their number format; empty without any.
        vector: Work of the vector unit without softmaxes, in elements of 16 bits.
        softmax: The same of softmaxes.
        moved_bytes: Activations that cross the memory interface, or pass through the memory on chip
            of a device that has no other.
        ahead_bytes: Weights and model inputs, which are loaded ahead of the group.
    """

    macs: Size
    dtype: str
    vector: Size
    softmax: Size = 0.0
    moved_bytes: Size
    ahead_bytes: Size


class TiledTable(msgspec.Struct, frozen=True, kw_only=True):
    """A cost table as compilers for NPUs see it.

    Attributes:
        works: Of each item, one execution.
        groups: Items that run together, by index; every item is in one group.
        counts: Executions of each group.
        formats: Number formats of multiply-adds, the one of most first.
        ahead_bytes: Of the whole run, less what stays on the chip from run to run.
        late_bytes: What of them has no room on chip ahead of its group.
        handed: Elements of the model's inputs, which the host hands over at each run, in fp32 and
            as far as it shows.
        linked: What is loaded ahead crosses the link to the host: the device has no other memory.
        attentions: Blocks of attention, fused or as two products of activations.
        inputs: Inputs at once.
        widest_bytes: Activations that a product or a sum reads and writes, of the one with most.
    """

    works: tuple[TiledWork, ...]
    groups: tuple[tuple[int, ...], ...]
    counts: tuple[int, ...]
    formats: tuple[str, ...]
    ahead_bytes: Size
    late_bytes: Size = 0.0
    handed: Size = 0.0
    linked: bool = False
    attentions: float = 0.0
    inputs: Size = 1
    widest_bytes: Size = 0

    @property
    def loads(self) -> float:
        """Bytes that ops need loaded, whether they stay on the chip from run to run or not."""
        return sum(a * n for a, n in zip(self.sums("ahead_bytes"), self.counts, strict=True))

    def sums(self, name: str) -> list[float]:
        """One field of `TiledWork`, summed over each group."""
        values = [float(getattr(work, name)) for work in self.works]
        return [sum(values[i] for i in group) for group in self.groups]


def tiled_table(table: CostTable) -> TiledTable:
    """What a table asks of an NPU.

    Args:
        table: Whose traffic is what on-chip memory leaves.
    """
    apart = _norms_apart(table)
    works = tuple(
        _with_norm(tiled_work(item, table.tiling), item, apart.get(i, 0.0))
        for i, item in enumerate(table.items)
    )
    macs: dict[str, Size] = {}
    for work, item in zip(works, table.items, strict=True):
        if not is_zero(work.macs):
            macs[work.dtype] = macs.get(work.dtype, 0.0) + work.macs * item.count
    formats = largest_first(macs)
    groups = groups_of(table)
    counts = tuple(table.items[group[0]].count for group in groups)
    loads = (w.ahead_bytes * item.count for w, item in zip(works, table.items, strict=True))
    ahead = maximum(total(loads) - table.tiling.held_bytes, 0)
    weights = (total(works[i].ahead_bytes for i in group) for group in groups)
    late = total(maximum(w - AHEAD_BYTES, 0) * n for w, n in zip(weights, counts, strict=True))
    return TiledTable(
        works=works,
        groups=groups,
        counts=counts,
        formats=formats,
        ahead_bytes=real(ahead),
        late_bytes=real(minimum(late, ahead)),
        handed=real(_handed(table, formats)),
        linked=any(item.passed_bytes is not None for item in table.items),
        attentions=sum(_attentions(item.view) * item.count for item in table.items),
        inputs=inputs_at_once(table),
        widest_bytes=_widest(table),
    )


def inputs_at_once(table: CostTable) -> Size:
    """Inputs at once: the largest batch of a convolution or an attention."""
    views = (i.view for i in table.items if i.view.kind in ("convolution", "attention"))
    return reduce(maximum, (v.size("batch", 1) for v in views), 1)


def _widest(table: CostTable) -> Size:
    """Of the product or the sum with most: its activations, the model's input included."""
    sizes: list[Size] = [0]
    for item in table.items:
        given = tuple(t for t in item.view.inputs if t.role not in _CONSTANT)
        joins = item.view.kind == "elementwise" and len(given) > 1
        if joins or item.view.kind in _PRODUCTS:
            sizes.append(distinct_bytes((*given, *item.view.outputs)))
    return reduce(maximum, sizes)


def _attentions(view: OpView) -> float:
    """Blocks of attention that an op is: one, or half of one as a product of activations."""
    if view.kind != "matmul":
        return 1.0 if view.kind == "attention" else 0.0
    return 0.0 if any(t.role in _CONSTANT for t in view.inputs) else 0.5


def _handed(table: CostTable, formats: tuple[str, ...]) -> Size:
    """Elements of the inputs that show, in fp32; see `gambrel.runtimes.UnitTiling`."""
    elements = total(_inputs(table).values())
    free = table.tiling.free_input_bytes
    if free is None:
        return elements
    given = next((f for f in formats[:1] if f in _QUANTIZED), _FULL)
    return maximum(elements * width_bytes(given) - free, 0) / width_bytes(_FULL)


def _inputs(table: CostTable) -> dict[int, Size]:
    """Storages of the model's inputs → their elements, as far as one op reads them."""
    found: dict[int, Size] = {}
    for place in table.places:
        for t in place.view.inputs:
            if t.role == "input":
                found[t.storage] = maximum(found.get(t.storage, 0), t.elements)
    return found


def _norms_apart(table: CostTable) -> dict[int, float]:
    """Items that are batch norms → their executions that no product comes right before."""
    last: dict[int, str] = {}
    found: dict[int, float] = {}
    for place in table.places:
        view = place.view
        if place.item is not None and _has_stored_statistics(view):
            before = {last.get(t.storage) for t in view.inputs[:1]}
            if not before & _PRODUCTS:
                found[place.item] = found.get(place.item, 0.0) + place.op.repeat
        last.update((t.storage, view.kind) for t in view.outputs)
    return found


def _with_norm(work: TiledWork, item: Item, apart: float) -> TiledWork:
    """The work of a quantized batch norm that no convolution takes in: it is an op of its own.

    What DenseNet-121 takes longer in 8 and in 16 bits than its convolutions is the same time on
    nine Qualcomm chips: as many elements of their vector units as its norms behind concatenations
    have, times `NORM`. In fp16 they cost nothing.
    """
    if not apart or item.view.dtype not in _QUANTIZED:
        return work
    return replace(
        work, vector=work.vector + NORM * item.view.size("elements") * apart / item.count
    )


def _has_stored_statistics(view: OpView) -> bool:
    return view.kind == "normalization" and not view.attrs.get("statistics", True)


def groups_of(table: CostTable) -> tuple[tuple[int, ...], ...]:
    """Items that run together, by index."""
    shared = {i for members in table.kernels for i in members}
    alone = tuple((i,) for i in range(len(table.items)) if i not in shared)
    return (*table.kernels, *alone)


def tiled_work(item: Item, tiling: UnitTiling) -> TiledWork:
    """The work of an item.

    Args:
        item: Of a table whose traffic is what on-chip memory leaves.
        tiling: How the compiler fills the units.
    """
    view = item.view
    macs, vector = _KINDS.get(view.kind, _other)(view, tiling)
    dtype = _matrix_dtype(item)
    width = width_bytes(dtype or view.dtype) / 2
    weights = item.prefetched_bytes
    given = distinct_bytes(tuple(t for t in view.inputs if t.role in _AHEAD))
    moved = item.passed_bytes
    if moved is None:
        moved = maximum(item.cost.read_bytes + item.cost.write_bytes - weights - given, 0)
    return TiledWork(
        macs=macs,
        dtype=dtype,
        vector=vector * width + _taken_apart(view, tiling),
        softmax=SOFTMAX * _softmax_elements(view) * width,
        moved_bytes=0 if _passes(view) else moved,
        ahead_bytes=weights * _spread(view, tiling) * STORED_WEIGHT.get(dtype, 1.0) + given,
    )


def _taken_apart(view: OpView, tiling: UnitTiling) -> Size:
    """Work of elements that a compiler moves one by one."""
    if view.kind != "copy" or _passes(view):
        return tiling.interleaved * _interleaved(view) if view.kind == "copy" else 0
    many = view.dtype not in _QUANTIZED and any(len(t.shape) > _DIMENSIONS for t in view.inputs)
    windowed = tiling.windowed * total(t.elements for t in view.outputs) if many else 0
    return tiling.interleaved * _interleaved(view) + windowed


def _interleaved(view: OpView) -> Size:
    """Elements of operands that slices with a step took out of the same rows of one tensor.

    Such slices start within a row of each other. Neither parts of a tensor's channels do, nor
    slices that step over whole rows.
    """
    starts: dict[int, list[TensorView]] = {}
    for t in view.inputs:
        starts.setdefault(t.storage, []).append(t)
    return total(t.elements for same in starts.values() if _steps(same) for t in same)


def _steps(slices: list[TensorView]) -> bool:
    """Whether one of them starts within a row of the first."""
    first, *others = slices
    if not first.shape:
        return False
    gaps = (abs(t.offset - first.offset) for t in others)
    return any(holds(gap > 0) and holds(gap < first.shape[-1]) for gap in gaps)


def is_depthwise(view: OpView) -> bool:
    """Whether a convolution has one input channel per group."""
    groups = view.size("groups", 1)
    return holds(groups > 1) and holds(groups == view.size("in_channels"))


def _spread(view: OpView, tiling: UnitTiling) -> Size:
    """How many times its weights a convolution of groups has as a dense one."""
    dense = tiling.dense_groups and view.kind == "convolution" and not is_depthwise(view)
    return view.size("groups", 1) if dense else 1


def _convolution(view: OpView, tiling: UnitTiling) -> tuple[Size, Size]:
    groups, taps = view.size("groups", 1), product(view.size("kernel"))
    *rows, row = view.size("spatial")
    windows = view.size("batch") * product(rows) * taps
    cin, cout = view.size("in_channels") // groups, view.size("out_channels") // groups
    if is_depthwise(view):
        return 0, tiling.depthwise * windows * row * cout * groups
    positions = windows * ceil_div(row, tiling.pixels) * tiling.pixels
    if groups > 1 and tiling.dense_groups:
        cin, cout = view.size("in_channels"), view.size("out_channels")
    elif groups > 1:  # narrow groups share one pass
        side_by_side = max(1, tiling.in_channels // cin)
        return positions * _padded(cin, cout, tiling) * groups / side_by_side, 0.0
    return positions * _padded(cin, cout, tiling) * (tiling.window if taps > 1 else 1.0), 0.0


def _matmul(view: OpView, tiling: UnitTiling) -> tuple[Size, Size]:
    rows = view.size("b", 1) * view.size("m")
    return rows * _padded(view.size("k"), view.size("n"), tiling), 0.0


def _attention(view: OpView, tiling: UnitTiling) -> tuple[Size, Size]:
    heads = view.size("batch") * view.size("heads")
    pairs = visible_pairs(view)
    d = view.size("head_dim")
    rows = pairs / view.size("kv_len")  # as many full rows of scores
    keys, values = view.size("kv_len"), view.size("v_head_dim", d)
    products = _padded(d, keys, tiling) + _padded(keys, values, tiling)
    ordered = total(t.elements for t in (*view.inputs[:3], *view.outputs[:1]))
    return heads * rows * products, tiling.ordered * ordered


def _softmax_elements(view: OpView) -> Size:
    if view.kind == "attention":
        return view.size("batch") * view.size("heads") * visible_pairs(view)
    return view.size("elements") if needs_row(view) else 0


def _softmax(view: OpView, _tiling: UnitTiling) -> tuple[Size, Size]:
    """One over a few channels is vector work as any other."""
    return 0, 0.0 if needs_row(view) else SOFTMAX * view.size("elements")


def needs_row(view: OpView) -> bool:
    """Whether it is a softmax over more values than are at hand together."""
    return view.kind == "softmax" and holds(view.size("elements") > _FEW * view.size("rows"))


def _elementwise(view: OpView, tiling: UnitTiling) -> tuple[Size, Size]:
    n = view.size("elements")
    if FUNCTIONS.get(str(view.attrs.get("function")), (0, 0))[1]:
        return 0, tiling.function * n
    operands = [t for t in view.inputs if t.role not in _CONSTANT and _large(t.elements, n)]
    return 0, RESIDUAL * n if len(operands) > 1 else 0.0


def _large(elements: Size, n: Size) -> bool:
    return holds(2 * elements > n)


def _normalization(view: OpView, _tiling: UnitTiling) -> tuple[Size, Size]:
    """Batch norm with stored statistics is folded into what is before it; see `_with_norm`."""
    return 0, 0.0 if _has_stored_statistics(view) else NORM * view.size("elements")


def _reduction(view: OpView, tiling: UnitTiling) -> tuple[Size, Size]:
    return 0, tiling.reduced * view.size("elements")


def _pooling(view: OpView, tiling: UnitTiling) -> tuple[Size, Size]:
    if not tiling.pooled:
        return 0, 0.0
    return 0, tiling.pooled * view.size("outputs") * view.size("window")


def _move(view: OpView, _tiling: UnitTiling) -> tuple[Size, Size]:
    return 0, 0.0 if _passes(view) else MOVE * total(t.elements for t in view.outputs)


def _nothing(_view: OpView, _tiling: UnitTiling) -> tuple[Size, Size]:
    return 0, 0.0


def _other(view: OpView, _tiling: UnitTiling) -> tuple[Size, Size]:
    """Kinds that no measured model has: their matrix work as it is, one pass over the results."""
    flops = _matrix_flops(view)
    return flops / 2, MOVE * total(t.elements for t in view.outputs)


def _matrix_flops(view: OpView) -> Size:
    found = cost(view)
    if found is None:
        return 0
    return total(n for (engine, _), n in found.work.items() if engine is Engine.MATRIX)


def _passes(view: OpView) -> bool:
    """Concatenations and pooling are done on the way; what holds constants alone is folded."""
    if view.kind in ("pooling", "fill"):
        return True
    if view.kind == "copy" and view.attrs.get("function") in ("cat", "stack", "cast"):
        return True
    return bool(view.inputs) and all(t.role in _CONSTANT for t in view.inputs)


def _padded(cin: Size, cout: Size, tiling: UnitTiling) -> Size:
    """Multiply-adds of a position: channels of both sides, padded to what the unit takes."""
    own, other = tiling.in_channels, tiling.out_channels
    return ceil_div(cin, own) * own * ceil_div(cout, other) * other


def _matrix_dtype(item: Item) -> str:
    return next((d for engine, d in item.cost.work if engine is Engine.MATRIX), "")


_KINDS: Final[Mapping[str, Callable[[OpView, UnitTiling], tuple[Size, Size]]]] = {
    "convolution": _convolution,
    "matmul": _matmul,
    "attention": _attention,
    "elementwise": _elementwise,
    "normalization": _normalization,
    "softmax": _softmax,
    "reduction": _reduction,
    "copy": _move,
    "gather": _move,
    "interpolation": _move,
    "embedding": _move,
    "pooling": _pooling,
    "fill": _nothing,
}
