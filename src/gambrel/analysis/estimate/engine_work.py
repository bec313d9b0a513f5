"""What an engine that was built for a GPU or a processor has to run, kernel by kernel.

A *kernel* is a convolution, linear layer or attention with what follows it element by element, or
a norm, a pooling, a copy by itself. Its work is that of the device's units: products after padding,
elements that the vector units finish, and bytes, of which some may stay in the last cache.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import replace

from gambrel.analysis.estimate.tiled_work import groups_of, inputs_at_once, is_depthwise
from gambrel.dtypes import width_bytes
from gambrel.ops import OpView
from gambrel.ops.attention import visible_pairs
from gambrel.ops.base import (
    Engine,
    Size,
    TensorView,
    ceil_div,
    distinct_bytes,
    holds,
    is_zero,
    largest_first,
    product,
    real,
    total,
)
from gambrel.ops.elementwise import FUNCTIONS
from gambrel.roofline import maximum

if TYPE_CHECKING:
    from gambrel.analysis.costs import CostTable, Item

#: Channels of a tile's side: fewer are padded.
CHANNELS: Final = 32
#: Bytes of a step along the reduction: fewer are padded.
STEP_BYTES: Final = 64
#: Keys from which on an attention in 8 bits runs in 16: TensorRT fuses it for up to 512 (reply of
#: its engineers to an issue on slow SDXL in int8, NVIDIA/TensorRT, 2024).
FUSED_KEYS: Final = 512
#: Kinds that wait step by step, or for other devices: not what is described here.
OTHERS: Final = frozenset({"recurrent", "recurrent_backward", "collective", "optimizer"})
_SCALARS: Final = (
    "rows", "columns", "depth", "copies", "attention", "windowed", "finished", "taps", "elements",
    "weight_bytes", "inner_bytes", "count", "step_bytes", "functions", "function_bytes", "images",
    "host_bytes",
)  # fmt: skip
_STAYS: Final = frozenset({"input", "output", "kv_cache", "state"})
#: Of a value that the host hands over or takes back: fp32, whatever the network is computed in.
_HANDED_BYTES: Final = 4
_CONSTANT: Final = frozenset({"weight", "buffer", "constant"})
_CURVED: Final = frozenset({"hardswish", "hardsigmoid"})
_LAYERS: Final = frozenset({"convolution", "matmul"})


class EngineKernel(msgspec.Struct, frozen=True, kw_only=True):
    """One execution of a kernel.

    Attributes:
        dtype: Number format of its products; empty without any.
        rows: Of one product.
        columns: The same.
        depth: Length of the reduction, after padding; two products of an attention together.
        copies: Products of these sizes: groups, heads, sequences.
        attention: Whether they are those of an attention.
        windowed: Whether they gather their operand through a window: convolutions of several taps.
        finished: Elements that leave the products and are finished on vector units.
        taps: Products of vector units: depthwise convolutions, windows of poolings.
        elements: Elements that vector units pass over outside of products.
        weight_bytes: Weights and what enters or leaves the run.
        inner_bytes: Activations that other kernels wrote or read.
        functions: Elements of a convolution's result that pass through an exponential or the like.
        function_bytes: Of these, read and written once.
        count: Executions in a run.
        members: Items of the cost table, by index.
        main: Of these, the one that its time is shown at.
        images: Inputs of the whole run at once: what its convolutions and attentions say.
        host_bytes: Inputs and results of the run that it reads and writes, as the host has them.
    """

    dtype: str
    rows: Size
    columns: Size
    depth: Size
    copies: Size
    attention: bool
    windowed: bool
    finished: Size
    taps: Size
    elements: Size
    weight_bytes: Size
    inner_bytes: Size
    functions: Size
    function_bytes: Size
    count: int
    members: tuple[int, ...]
    main: int
    images: Size = 1
    host_bytes: Size = 0.0

    @property
    def flops(self) -> Size:
        """Of all its products."""
        return 2 * self.rows * self.columns * self.depth * self.copies

    @property
    def step_bytes(self) -> Size:
        """Bytes along the reduction."""
        return self.depth * width_bytes(self.dtype) if self.dtype else 0.0


class _Products(msgspec.Struct, frozen=True, kw_only=True):
    """Equal products of one kernel."""

    rows: Size = 0
    columns: Size = 0
    depth: Size = 0
    copies: Size = 0
    taps: Size = 0
    windowed: bool = False


@dataclass(frozen=True, kw_only=True)  # no slots: columns are kept
class EngineTable:
    """A cost table as engines run it.

    Attributes:
        kernels: In no particular order.
        formats: Number formats of products, the one of most first.
        described: Whether all of its ops are such that the formulas are about them.
    """

    kernels: tuple[EngineKernel, ...]
    formats: tuple[str, ...]
    described: bool = True

    @cached_property
    def columns(self) -> dict[str, Any]:
        """Each field of the kernels as an array, made once for all devices.

        Of a table of many points the kernels are the last axis.
        """
        import numpy as np

        def column(values: list[Size]) -> Any:
            rows = np.broadcast_arrays(*values)
            return np.ascontiguousarray(np.stack(rows, axis=-1), dtype=float)

        return {name: column([getattr(k, name) for k in self.kernels]) for name in _SCALARS}

    @cached_property
    def handed(self) -> tuple[Size, Size]:
        """Bytes that the host hands over and takes back in a run, and images at once."""
        columns = self.columns
        whole = real((columns["host_bytes"] * columns["count"]).sum(axis=-1))
        return whole, real(columns["images"].max(axis=-1, initial=1.0))


def engine_table(table: CostTable) -> EngineTable:
    """What a table asks of an engine."""
    groups = [([table.items[i] for i in group], group) for group in _grouped(table)]
    straight = frozenset(t.storage for items, _ in groups for t in _strided(items))
    read = frozenset(t.storage for place in table.places for t in place.view.inputs)
    made = (_kernel(items, group, straight, read) for items, group in groups)
    kernels = tuple(kernel for kernel in made if kernel is not None)
    images = inputs_at_once(table)
    kernels = tuple(msgspec.structs.replace(k, images=images) for k in kernels)
    flops: dict[str, Size] = {}
    for kernel in kernels:
        if kernel.dtype:
            flops[kernel.dtype] = flops.get(kernel.dtype, 0.0) + kernel.flops * kernel.count
    return EngineTable(
        kernels=kernels,
        formats=largest_first(flops),
        described=not any(item.view.kind in OTHERS for item in table.items),
    )


def _grouped(table: CostTable) -> list[tuple[int, ...]]:
    """Groups of items; a norm takes in what alone reads its result, element by element.

    TensorRT runs them in one kernel (its layers of norms are compiled with what is around them,
    its plugins take the activation as an argument). Where statistics and their use are loops of
    their own, as in instance norms, the fusion leaves them apart.
    """
    groups = groups_of(table)
    norms = {
        t.storage: n for n, group in enumerate(groups) for t in _normed(table.items[group[-1]].view)
    }
    readers: dict[int, set[int | None]] = defaultdict(set)
    for place in table.places:
        for t in place.view.inputs:
            readers[t.storage].add(place.item)
    found = list(groups)
    for n, group in enumerate(groups):
        views = [table.items[i].view for i in group]
        given = {t.storage for view in views for t in view.inputs} & norms.keys()
        if len(given) != 1 or any(view.kind != "elementwise" for view in views):
            continue
        (storage,) = given
        norm = norms[storage]
        alike = table.items[groups[norm][0]].count == table.items[group[0]].count
        if alike and readers[storage] <= set(group):
            found[norm], found[n] = (*found[norm], *group), ()
    return [group for group in found if group]


def _normed(view: OpView) -> tuple[TensorView, ...]:
    """The result of a norm; none of other ops."""
    return view.outputs[:1] if view.kind == "normalization" else ()


def _kernel(
    items: list[Item], members: tuple[int, ...], straight: frozenset[int], read: frozenset[int]
) -> EngineKernel | None:
    """A kernel; None where all of it is folded into constants or happens elsewhere.

    Args:
        items: Ops that run together.
        members: Their indices.
        straight: Storages that are written where a concatenation wants them.
        read: Storages that any op of the run reads.
    """
    main = next((i.view for i in items if _has_products(i)), None)
    left = [v for i in items if (v := _left(i.view, straight)) is not None]
    if main is None and not left:
        return None
    view = left[0] if main is None else main
    made = _Products(taps=_window_taps(view)) if main is None else _products(view)
    written = real(total(t.elements for t in view.outputs))
    if main is None:
        kept, inner = (_passed_bytes(left, stays=stays) for stays in (True, False))
    else:
        beside = sum(_beside(i.view) for i in items if i.view is not view)
        kept = _bytes(view, stays=True)
        inner = _bytes(view, stays=False) + beside * width_bytes(view.dtype)
    if main is None and view.kind != "pooling":  # what is not multiplied passes in 16 bits
        inner *= max(1.0, 2 / width_bytes(view.dtype)) if width_bytes(view.dtype) <= 1 else 1.0
    functions = written if view.kind == "convolution" and any(map(_is_curved, items)) else 0.0
    return EngineKernel(
        dtype=_dtype(items, made),
        rows=real(made.rows),
        columns=real(made.columns),
        depth=real(made.depth),
        copies=real(made.copies),
        attention=view.kind == "attention",
        windowed=made.windowed,
        finished=written if main is not None else 0.0,
        taps=real(made.taps),
        elements=0.0 if main is not None else _passed(left),
        weight_bytes=kept,
        inner_bytes=real(inner),
        functions=functions,
        function_bytes=2 * functions * max(2.0, width_bytes(view.dtype)),
        count=items[0].count,
        members=members,
        main=_shown(items, members, view),
        host_bytes=_handed(items, read),
    )


def _handed(items: list[Item], read: frozenset[int]) -> Size:
    """Bytes of the run's inputs and results among the operands of a kernel, each once.

    What the rest of the run reads is no result: detectors return what their heads read, too, which
    an exported network keeps to itself.
    """
    given = [t for i in items for t in i.view.inputs if t.role == "input"]
    left = [
        t for i in items for t in i.view.outputs if t.role == "output" and t.storage not in read
    ]
    each = {t.storage: t.elements for t in (*given, *left)}
    return _HANDED_BYTES * real(total(each.values()))


def _shown(items: list[Item], members: tuple[int, ...], view: OpView) -> int:
    """The member whose view it is; the first where the view was made from one."""
    pairs = zip(members, items, strict=True)
    return next((i for i, item in pairs if item.view is view), members[0])


def _has_products(item: Item) -> bool:
    work = item.cost.work.items()
    return any(engine is Engine.MATRIX and not is_zero(n) for (engine, _), n in work)


def _dtype(items: list[Item], made: _Products) -> str:
    formats = (d for i in items for engine, d in i.cost.work if engine is Engine.MATRIX)
    dtype = next(formats, "")
    narrow = bool(dtype) and width_bytes(dtype) <= 1
    if not narrow or not any(i.view.kind == "attention" for i in items):
        return dtype
    return "fp16" if holds(made.depth > FUSED_KEYS) else dtype


def _products(view: OpView) -> _Products:
    width = width_bytes(view.operand_dtype(2))
    if view.kind == "convolution":
        return _convolution(view, width)
    if view.kind == "attention":
        return _attention(view)
    if view.kind == "matmul":
        return _Products(
            rows=view.size("m"),
            columns=_padded(view.size("n"), CHANNELS),
            depth=_padded(view.size("k"), STEP_BYTES / width),
            copies=view.size("b", 1),
        )
    return _Products(rows=_flops(view) / 2, columns=1, depth=1, copies=1)


def _attention(view: OpView) -> _Products:
    """A tile holds rows of queries; it walks over the keys that they see."""
    d, queries = view.size("head_dim"), view.size("q_len")
    both = d + view.size("v_head_dim", d)
    return _Products(
        rows=queries,
        columns=both,
        depth=visible_pairs(view) / queries,
        copies=view.size("batch") * view.size("heads"),
    )


def _convolution(view: OpView, width: float) -> _Products:
    groups, taps = view.size("groups", 1), product(view.size("kernel"))
    positions = view.size("batch") * product(view.size("spatial"))
    inputs, outputs = view.size("in_channels") // groups, view.size("out_channels") // groups
    if is_depthwise(view):
        return _Products(taps=positions * taps * outputs * groups)
    together = max(1, CHANNELS // inputs) if groups > 1 else 1  # narrow groups share a tile
    return _Products(
        rows=positions,
        columns=_padded(outputs * together, CHANNELS),
        depth=_padded(inputs * together * taps, STEP_BYTES / width),
        copies=groups / together,
        windowed=holds(taps > 1),
    )


def _padded(size: Size, multiple: float) -> Size:
    return ceil_div(size, int(multiple)) * int(multiple)


def _flops(view: OpView) -> Size:
    from gambrel.ops import cost

    found = cost(view)
    work = {} if found is None else found.work
    return real(total(n for (engine, _), n in work.items() if engine is Engine.MATRIX))


def _window_taps(view: OpView) -> Size:
    if view.kind != "pooling":
        return 0
    window = view.size("window", 1)
    taps = product(window) if isinstance(window, tuple) else window
    packed = width_bytes(view.dtype) / 2  # vector instructions take two halves, or four bytes
    return packed * taps * view.size("outputs", sum(t.elements for t in view.outputs))


def _passed(views: list[OpView]) -> Size:
    """Elements that a kernel without products passes over, its longest op."""
    return real(reduce(maximum, (total(t.elements for t in v.outputs) for v in views)))


def _strided(items: list[Item]) -> tuple[TensorView, ...]:
    """Results of a convolution: TensorRT has it write them into a concatenation's place.

    Its log says so ("Eliminating concatenation node"), and that what others write is copied.
    """
    if any(map(_is_curved, items)) or not any(i.view.kind == "convolution" for i in items):
        return ()
    return items[-1].view.outputs


def _left(view: OpView, straight: frozenset[int]) -> OpView | None:
    """What is left of an op to run: of a concatenation what is copied; None of a folded one."""
    if _is_folded(view):
        return None
    if view.kind != "copy" or view.attrs.get("function") != "cat":
        return view
    copied = tuple(t for t in view.inputs if t.storage not in straight)
    place = view.outputs[0]
    placed = enumerate(replace(t, storage=place.storage, role=place.role) for t in copied)
    outputs = tuple(replace(t, offset=n) for n, t in placed)
    return replace(view, inputs=copied, outputs=outputs) if copied else None


def _beside(view: OpView) -> Size:
    """Elements of a second large operand that a kernel reads: a residual."""
    if view.kind != "elementwise":
        return 0.0
    n = view.size("elements")
    operands = [t for t in view.inputs if t.role not in _CONSTANT and holds(2 * t.elements > n)]
    return real(n) if len(operands) > 1 else 0.0


def _is_curved(item: Item) -> bool:
    """SiLU, GELU, hard swish: made of several operators, other than ReLU and its clipped kin."""
    name = str(item.view.attrs.get("function"))
    return bool(
        item.view.kind == "elementwise" and (name in _CURVED or FUNCTIONS.get(name, (0, 0))[1])
    )


def _bytes(view: OpView, *, stays: bool) -> Size:
    """Bytes of an op that cross the memory in any case, or those that a cache may keep."""

    def crosses(t: TensorView) -> bool:
        return t.role in _CONSTANT or t.role in _STAYS

    chosen = tuple(t for t in (*view.inputs, *view.outputs) if crosses(t) is stays)
    if view.kind in ("embedding", "gather"):  # of a table only the rows that are looked up
        chosen = tuple(t for t in view.outputs if crosses(t) is stays)
    return real(distinct_bytes(chosen))


def _passed_bytes(views: list[OpView], *, stays: bool) -> Size:
    """Bytes of ops that run together: what one leaves to another stays in registers."""

    def outer(view: OpView) -> OpView:
        others = [v for v in views if v is not view]
        written = {t.storage for v in others for t in v.outputs}
        read = {t.storage for v in others for t in v.inputs}
        return replace(
            view,
            inputs=tuple(t for t in view.inputs if t.storage not in written),
            outputs=tuple(t for t in view.outputs if t.storage not in read),
        )

    return real(total(_bytes(outer(v), stays=stays) for v in views))


def _is_folded(view: OpView) -> bool:
    return bool(view.inputs) and all(t.role in _CONSTANT for t in view.inputs)
