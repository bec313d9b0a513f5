"""Reads and writes at computed places: embeddings, gather, scatter."""

from __future__ import annotations

from gambrel.capture.aten.call import Call, Described, TensorArg, flatten, present
from gambrel.capture.aten.registry import rule
from gambrel.workload import Sizes


@rule("aten.embedding")
def embedding(call: Call) -> Described:
    """weight, indices, ..."""
    table, indices = call.tensor(0, "weight"), call.tensor(1, "indices")
    sizes = _rows(table, indices)
    return call.described("embedding", sizes, {"mode": "gather"}, inputs=[table, indices])


@rule("aten.embedding_bag", "aten._embedding_bag", "aten._embedding_bag_forward_only")
def embedding_bag(call: Call) -> Described:
    """weight, indices, offsets, scale_grad_by_freq, mode (0 sum, 1 mean, 2 max), ..."""
    table, indices = call.tensor(0, "weight"), call.tensor(1, "indices")
    mode = ("bag_sum", "bag_mean", "bag_max")[call.arg(4, "mode", 0)]
    sizes = {**_rows(table, indices), "bags": call.out.shape[0]}
    others = [t for t in call.inputs if t not in (table, indices)]
    weighted = call.optional(6, "per_sample_weights") is not None
    return call.described(
        "embedding",
        sizes,
        {"mode": mode, "weighted": weighted},
        inputs=[table, indices, *others],
        outputs=call.outputs[:1],
    )


@rule("aten.embedding_dense_backward", "aten.embedding_backward")
def embedding_backward(call: Call) -> Described:
    """grad_output, indices, num_weights, ...: rows added into a zeroed table."""
    name = "grad" if call.name == "embedding_backward" else "grad_output"
    grad, indices = call.tensor(0, name), call.tensor(1, "indices")
    sizes: Sizes = {
        "rows": indices.numel,
        "width": grad.shape[-1],
        "table_rows": call.arg(2, "num_weights"),
    }
    return call.described("embedding_backward", sizes)


@rule("aten._embedding_bag_dense_backward", "aten._embedding_bag_backward")
def embedding_bag_backward(call: Call) -> Described:
    """grad, indices, ...: every bag's gradient added to each of its rows."""
    indices, out = call.tensor(1, "indices"), call.out
    sizes: Sizes = {"rows": indices.numel, "width": out.shape[-1], "table_rows": out.shape[0]}
    return call.described("embedding_backward", sizes)


@rule(
    "aten.index",
    "aten._unsafe_index",
    "aten._unsafe_masked_index",
    "aten.index_select",
    "aten.take",
    "aten.take_along_dim",
    "aten.gather",
    "aten.masked_select",
    "aten.masked_scatter_backward",
)
def gather(call: Call) -> Described:
    """As many elements as results; of a masked scatter, the gradients under its mask."""
    return call.described("gather", {"elements": call.out.numel})


@rule("aten.index_put", "aten._index_put_impl", "aten._unsafe_index_put")
def index_put(call: Call) -> Described:
    """self, indices, values, accumulate: as many elements as the indices select."""
    places = tuple(flatten(call.arg(1, "indices")))
    values = call.tensor(2, "values")
    x = call.tensor(0)
    accumulate = bool(call.arg(3, "accumulate", False))
    elements = _selected(x, call.arg(1, "indices"), values)
    return _scatter(call, elements, accumulate, [*places, values])


@rule("aten._unsafe_masked_index_put_accumulate")
def masked_index_put(call: Call) -> Described:
    """self, mask, indices, values: added where the mask holds."""
    values = call.tensor(3, "values")
    return _scatter(call, values.numel, True, [*flatten(call.args[1:3]), values])


@rule("aten.scatter", "aten.scatter_add", "aten.scatter_reduce")
def scatter(call: Call) -> Described:
    """self, dim, index, src or value, ...: as many elements as the index has."""
    index = call.tensor(2, "index")
    source = call.optional(3, "value" if call.overload.startswith("value") else "src")
    accumulate = call.name != "scatter" or "reduce" in call.overload
    return _scatter(call, index.numel, accumulate, [index, *present(source)])


@rule("aten.put")
def put(call: Call) -> Described:
    """self, index, source, accumulate: places in the flattened tensor."""
    index, source = call.tensor(1, "index"), call.tensor(2, "source")
    return _scatter(call, index.numel, bool(call.arg(3, "accumulate", False)), [index, source])


@rule("aten.index_copy", "aten.index_add", "aten.index_reduce")
def index_copy(call: Call) -> Described:
    """self, dim, index, source: whole slices written."""
    index, source = call.tensor(2, "index"), call.tensor(3, "source")
    return _scatter(call, source.numel, call.name != "index_copy", [index, source])


@rule("aten.index_fill")
def index_fill(call: Call) -> Described:
    """self, dim, index, value: whole slices overwritten with one value."""
    x, index = call.tensor(0), call.tensor(2, "index")
    length = x.shape[call.arg(1, "dim")] if x.shape else 1
    elements = x.numel // max(length, 1) * index.numel
    return _scatter(call, elements, False, [index])


@rule("aten.masked_scatter")
def masked_scatter(call: Call) -> Described:
    """self, mask, source: at most as many elements as the source has."""
    mask, source = call.tensor(1, "mask"), call.tensor(2, "source")
    return _scatter(call, min(mask.numel, source.numel), False, [mask, source])


@rule("aten.max_unpool2d", "aten.max_unpool3d", "aten.one_hot")
def unpool(call: Call) -> Described:
    """self, ...: every element written at its place in a zeroed output, or a one for it."""
    return call.described("scatter", {"elements": call.tensor(0).numel}, {"accumulate": False})


@rule(
    "aten.col2im",
    "aten.unfold_backward",
    "aten.histc",
    "aten.bincount",
    "aten.reflection_pad1d_backward",
    "aten.reflection_pad2d_backward",
    "aten.reflection_pad3d_backward",
    "aten.replication_pad1d_backward",
    "aten.replication_pad2d_backward",
    "aten.replication_pad3d_backward",
)
def accumulated(call: Call) -> Described:
    """Every element (of windows that overlap, of gradients) added to the place it belongs to."""
    return call.described("scatter", {"elements": call.tensor(0).numel}, {"accumulate": True})


def _rows(table: TensorArg, indices: TensorArg) -> Sizes:
    return {"rows": indices.numel, "width": table.shape[-1], "table_rows": table.shape[0]}


def _scatter(call: Call, elements: int, accumulate: bool, read: list[TensorArg]) -> Described:
    """In place only the touched elements move; otherwise the whole tensor is copied first.

    Inputs are the places and values; then, when its old values are needed, the tensor itself.
    """
    in_place = call.op.endswith("_")
    attrs = {"accumulate": accumulate, "in_place": in_place}
    inputs = read if in_place and not accumulate else [*read, call.tensor(0)]
    return call.described("scatter", {"elements": elements}, attrs, inputs=inputs)


def _selected(x: TensorArg, indices: list[TensorArg | None], values: TensorArg) -> int:
    """Elements of ``x[indices]``: broadcast index shape times the dimensions left alone."""
    given = [i for i in indices if i is not None]
    if any(i.dtype == "bool" for i in given):
        return values.numel  # how many the mask selects is known to the run alone
    chosen = _broadcast_numel([i.shape for i in given])
    rest = 1
    for dim, size in enumerate(x.shape):
        if dim >= len(indices) or indices[dim] is None:
            rest *= size
    return max(chosen * rest, values.numel)


def _broadcast_numel(shapes: list[tuple[int, ...]]) -> int:
    rank = max(map(len, shapes), default=0)
    padded = [(1,) * (rank - len(s)) + s for s in shapes]
    count = 1
    for sizes in zip(*padded, strict=True):
        count *= max(sizes)
    return count
