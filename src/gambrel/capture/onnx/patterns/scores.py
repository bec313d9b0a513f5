"""Attention written out: a product, a softmax, a product, in any order of dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Final

from gambrel.capture.onnx.edges import Edge, Step
from gambrel.capture.onnx.lowering.attention import ATTENTION, SCALED, TOKENS_FIRST, sizes_of
from gambrel.capture.onnx.patterns.flow import Flow, successor
from gambrel.capture.onnx.patterns.masks import Masks, Pairs
from gambrel.capture.onnx.patterns.paths import back, is_closed, other

_DOT: Final = "xla::dot_general"
#: Products: of any dimensions, or of stacks of matrices.
_PRODUCTS: Final = (_DOT, "MatMul", "com.microsoft::FusedMatMul")
_FORMS: Final = ("Reshape", "Transpose", "Cast")
#: What may stand between the first product and the softmax: scale, mask, cap, change of form.
_BETWEEN: Final = (*_FORMS, "Add", "Mul", "Div", "Where", "Tanh", "Expand")
_MAX_BEFORE: Final = 12
#: Steps between the softmax and the second product.
_MAX_BEHIND: Final = 8


@dataclass(slots=True)
class _Scores:
    """The way from the first product to the softmax.

    Attributes:
        product: The first product.
        axis: Of its result, along which the softmax runs.
        steps: Between.
        masks: What hides scores: conditions, or numbers that are added; whether it says what is
            hidden rather than what is seen.
    """

    product: Step
    axis: int
    steps: list[Step] = field(default_factory=list)
    masks: list[tuple[Edge, bool]] = field(default_factory=list)


def recognise_attention(flow: Flow) -> None:
    """Replaces every product, softmax and product by one step."""
    masks = Masks(flow)
    for softmax in flow.steps("Softmax", "xla::softmax"):
        if softmax.attrs.get("function", "softmax") == "softmax":
            try:
                _fuse(flow, softmax, masks)
            except (ValueError, IndexError):
                continue
    for attention in flow.steps(SCALED):  # as some formats write it
        mask = attention.input(3)
        if mask is not None:
            pairs = masks.pairs([(mask, False)])
            flow.redirect(attention, 3, pairs.mask)
            _put(flow, attention, pairs)


def _put(flow: Flow, attention: Step, pairs: Pairs) -> None:
    """Fixed masks are no tensors to read: what made them alone is no step either."""
    attention.attrs.update(pairs.attrs)
    for mask in pairs.known:
        flow.drop_unread(mask)


def _fuse(flow: Flow, softmax: Step, masks: Masks) -> None:
    before = _first(flow, softmax)
    behind = _second(flow, softmax)
    if before is None or behind is None:
        return
    second, after, weights = behind
    sizes, q, k = _first_sizes(before)
    side = 0 if second.input(0) is weights else 1
    v = second.x(1 - side)
    if not _fits(second, side, sizes):
        return
    sizes["v_head_dim"] = _free(second, 1 - side)
    queries, scaling = _unscaled(flow, q, before.product)
    keys, more = _unscaled(flow, k, before.product)
    steps = [before.product, *before.steps, softmax, *after, second]
    full = list(dict.fromkeys([*steps, *scaling, *more]))
    if not is_closed(flow, full, second):
        full, queries, keys = steps, q, k
        if not is_closed(flow, full, second):
            return
    pairs = masks.pairs(before.masks)
    sizes = _heads(sizes, before)
    new = successor(second, ATTENTION, [queries, keys, v, pairs.mask], second.out)
    new.attrs, new.label = {**sizes}, "attention"
    if second.op != _DOT and len(second.out.shape or ()) == 4:
        new.attrs["laid"] = TOKENS_FIRST
    flow.replace(full, new)
    _put(flow, new, pairs)


def _axis(softmax: Step) -> int:
    """The dimension that a softmax runs along.

    Raises:
        ValueError: Before operator set 13 of ONNX: it runs along several.
    """
    rank = len(softmax.out.shape or ())
    axis = int(softmax.attrs.get("axis", -1 if softmax.version >= 13 else 1)) % max(rank, 1)
    if softmax.op == "Softmax" and axis != rank - 1:
        raise ValueError("a softmax along other dimensions than the last")
    return axis


def _first(flow: Flow, softmax: Step) -> _Scores | None:
    """Back over scaling, capping, masking and changes of form."""
    edge, axis = softmax.x(), _axis(softmax)
    scores = _Scores(softmax, axis)
    for _ in range(_MAX_BEFORE):
        step = flow.maker.get(edge)
        if step is None:
            return None
        if step.op in _PRODUCTS:
            scores.product, scores.axis = step, axis
            return scores
        following = _operand(flow, step, scores)
        if following is None:
            return None
        axis = _moved_back(step, following, axis)
        scores.steps.append(step)
        edge = following
    return None


def _operand(flow: Flow, step: Step, scores: _Scores) -> Edge | None:
    """The operand of a step between product and softmax that the scores come in by."""
    if step.op not in _BETWEEN:
        return None
    if step.op in ("Mul", "Div"):
        numbers = [e for e in step.inputs if e is not None and e.scalar is not None]
        return other(step, numbers[0]) if len(numbers) == 1 else None
    if step.op not in ("Add", "Where"):
        return step.x()
    given = [e for e in step.inputs if e is not None]
    wanted = [e for e in given if _leads_to_product(flow, e, 0)]
    if len(wanted) != 1:
        return None
    rest = [e for e in given if e is not wanted[0] and e.scalar is None]
    hides = step.op == "Where" and given[2] is wanted[0]
    scores.masks += [(given[0], hides)] if step.op == "Where" else [(e, False) for e in rest]
    return wanted[0]


def _leads_to_product(flow: Flow, edge: Edge, depth: int) -> bool:
    step = flow.maker.get(edge)
    if step is None or depth > _MAX_BEFORE:
        return False
    if step.op in _PRODUCTS:
        return True
    if step.op not in _BETWEEN:
        return False
    return any(e is not None and _leads_to_product(flow, e, depth + 1) for e in step.inputs)


def _moved_back(step: Step, operand: Edge, axis: int) -> int:
    """Where a dimension of a step's result is in its operand.

    Raises:
        ValueError: It was part of another one.
    """
    new, old = step.out.shape or (), operand.shape or ()
    if step.op == "Transpose":
        return int(step.attrs["perm"][axis])
    if step.op == "Reshape":
        return _matched(new, old, axis)
    return axis - (len(new) - len(old))


def _matched(new: tuple[int, ...], old: tuple[int, ...], axis: int) -> int:
    """The dimension of another shape of the same elements that has the same length and stride."""
    stride = prod(new[axis + 1 :])
    for i, n in enumerate(old):
        if n == new[axis] and prod(old[i + 1 :]) == stride:
            return i
    raise ValueError("the scores are cut in another way")


def _second(flow: Flow, softmax: Step) -> tuple[Step, list[Step], Edge] | None:
    """The product with the values, the steps before it, the weights as it reads them.

    Behind steps that change the form, and that keep rows without any key at zero.
    """
    passed: list[Step] = []
    edge = softmax.out
    for _ in range(_MAX_BEHIND):
        readers = flow.readers(edge)
        following = [r for r in readers if r.op != "IsNaN"]
        if len(following) != 1 or flow.is_returned(edge):
            return None
        step = following[0]
        if step.op in _PRODUCTS:
            return step, passed, edge
        if step.op not in (*_FORMS, "Where", "Dropout"):
            return None
        passed += readers
        edge = step.out
    return None


def _dimensions(product: Step, name: str, side: int) -> Sequence[int]:
    """The dimensions of an operand that are ``batch``, or that a product sums over (``contract``).

    Raises:
        ValueError: Matrices that are not stacked.
    """
    if product.op == _DOT:
        return [int(d) for d in product.attrs[name][side]]
    rank = len(product.x(side).shape or ())
    if rank < 3:
        raise ValueError("a product of single matrices")
    if name == "batch":
        return range(rank - 2)
    turned = bool(product.attrs.get("transB" if side else "transA"))
    return (rank - 1,) if turned == bool(side) else (rank - 2,)


def _first_sizes(scores: _Scores) -> tuple[dict[str, int], Edge, Edge]:
    """Sizes that the first product tells; queries and keys.

    Raises:
        ValueError: The softmax does not run along the keys.
    """
    product = scores.product
    side = _keys_side(scores)
    if _free(product, side) != (product.out.shape or ())[scores.axis]:
        raise ValueError("a softmax along another dimension")
    keys, queries = product.x(side), product.x(1 - side)
    contracted = [(queries.shape or ())[d] for d in _dimensions(product, "contract", 1 - side)]
    sizes = {
        "batches": prod(_batch_lengths(product)),
        "queries": _free(product, 1 - side),
        "kv_len": _free(product, side),
        "head_dim": prod(contracted),
    }
    return sizes, queries, keys


def _keys_side(scores: _Scores) -> int:
    """The operand that the dimension of the softmax comes from: batches, left, right, in order.

    Raises:
        ValueError: It is a dimension of batches.
    """
    batch = len(_batch_lengths(scores.product))
    if scores.axis < batch:
        raise ValueError("a softmax along batches")
    return 0 if scores.axis < batch + len(_free_lengths(scores.product, 0)) else 1


def _batch_lengths(product: Step) -> list[int]:
    """How many products there are, by dimension.

    Raises:
        ValueError: One operand is repeated.
    """
    left, right = (
        [(product.x(side).shape or ())[d] for d in _dimensions(product, "batch", side)]
        for side in (0, 1)
    )
    if left != right:
        raise ValueError("an operand that is repeated")
    return left


def _free_lengths(product: Step, side: int) -> list[int]:
    taken = {d for name in ("contract", "batch") for d in _dimensions(product, name, side)}
    return [n for i, n in enumerate(product.x(side).shape or ()) if i not in taken]


def _free(product: Step, side: int) -> int:
    return prod(_free_lengths(product, side))


def _fits(second: Step, side: int, sizes: dict[str, int]) -> bool:
    """Whether the second product sums over the keys, for the same batches and queries."""
    shape = second.x(side).shape or ()
    summed = prod(shape[d] for d in _dimensions(second, "contract", side))
    same = summed == sizes["kv_len"] and prod(_batch_lengths(second)) == sizes["batches"]
    ordered = second.op == _DOT or side == 0  # a matrix of weights on the right sums over queries
    return same and ordered and _free(second, side) == sizes["queries"]


def _heads(sizes: dict[str, int], scores: _Scores) -> dict[str, int]:
    """Batches and free dimensions of the queries told apart: tokens, heads that share keys."""
    product = scores.product
    batch = _batch_lengths(product)
    free = [n for n in _free_lengths(product, 1 - _keys_side(scores)) if n != 1] or [1]
    tokens = sizes["kv_len"] if sizes["kv_len"] in free else free[0]
    shared = batch[-1] if len(batch) > 1 else 1
    batches, heads = sizes["batches"] // max(shared, 1), sizes["queries"] // max(tokens, 1)
    widths = (sizes["head_dim"], sizes["v_head_dim"])
    return sizes_of(batches, shared * heads, shared, tokens, sizes["kv_len"], *widths)


def _unscaled(flow: Flow, edge: Edge, product: Step) -> tuple[Edge, list[Step]]:
    """An operand before it was scaled by a number."""
    start, _ = back(flow, edge, ())
    step = flow.made_by(start, "Mul", "Div")
    if step is None or step.out.shape != step.x().shape or not flow.is_internal(start, [product]):
        return edge, []
    second = step.input(1)
    if second is None or second.scalar is None:
        return edge, []
    return step.x(), [step]
