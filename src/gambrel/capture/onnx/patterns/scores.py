"""Attention written out: two matmuls with a softmax between them."""

from __future__ import annotations

from typing import Final

from gambrel.capture.onnx.edges import Edge, Step
from gambrel.capture.onnx.lowering.attention import SCALED
from gambrel.capture.onnx.patterns.flow import Flow, successor
from gambrel.capture.onnx.patterns.masks import Masks, Pairs

#: What may stand between the first product and the softmax: scale, mask, cap.
_MAX_BEFORE: Final = 6


def recognise_attention(flow: Flow) -> None:
    """Replaces every product, softmax and product by one step, and reads their masks."""
    masks = Masks(flow)
    for softmax in flow.steps("Softmax"):
        _fuse(flow, softmax, masks)
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
    shape = softmax.out.shape
    if shape is None or len(shape) < 3 or not _along_last(softmax, len(shape)):
        return
    behind = _second_product(flow, softmax)
    before = _first_product(flow, softmax)
    if behind is None or before is None:
        return
    first, between, hidden = before
    second, after = behind
    q, k, v = _scaled_source(flow, first.input(0)), _keys(flow, first), second.input(1)
    if q is None or k is None or v is None or not _fit(q[0], k[0], v, second.out):
        return
    steps = [first, *between, softmax, *after, second, *q[1], *k[1]]
    if any(not flow.is_internal(s.out, steps) for s in steps if s is not second):
        steps = [first, *between, softmax, *after, second]  # scaled queries that others read, too
        q, k = (first.x(0), []), (_turned(flow, first), [])
        if any(not flow.is_internal(s.out, steps) for s in steps if s is not second):
            return
    pairs = masks.pairs(hidden)
    new = successor(second, SCALED, [q[0], k[0], v, pairs.mask], second.out)
    flow.replace(steps, new)
    _put(flow, new, pairs)


def _along_last(softmax: Step, rank: int) -> bool:
    default = -1 if softmax.version >= 13 else 1
    return int(softmax.attrs.get("axis", default)) % rank == rank - 1


def _second_product(flow: Flow, softmax: Step) -> tuple[Step, list[Step]] | None:
    """The product with the values, behind steps that keep rows without any key at zero."""
    edge = softmax.out
    passed: list[Step] = []
    for _ in range(3):
        product = flow.only_reader(edge, "MatMul")
        if product is not None:
            return (product, passed) if product.input(0) is edge else None
        readers = flow.readers(edge)
        where = next((r for r in readers if r.op == "Where"), None)
        if where is not None and all(r is where or r.op == "IsNaN" for r in readers):
            passed += [r for r in readers if r not in passed]
            edge = where.out
            continue
        cast = flow.only_reader(edge, "Cast", "Dropout")
        if cast is None:
            return None
        passed.append(cast)
        edge = cast.out
    return None


def _first_product(
    flow: Flow, softmax: Step
) -> tuple[Step, list[Step], list[tuple[Edge, bool]]] | None:
    """The product that makes the scores, the steps between, the masks; whether they say hidden."""
    edge = softmax.x()
    passed: list[Step] = []
    masks: list[tuple[Edge, bool]] = []
    for _ in range(_MAX_BEFORE):
        step = flow.maker.get(edge)
        if step is None:
            return None
        if step.op in ("MatMul", "com.microsoft::FusedMatMul"):
            return step, passed, masks
        following = _scores_operand(flow, step)
        if following is None:
            return None
        other = next((e for e in step.inputs if e is not following and e is not None), None)
        if step.op in ("Add", "Where") and other is not None and other.scalar is None:
            hides = step.op == "Where" and step.input(2) is following
            masks.append((step.x(0) if step.op == "Where" else other, hides))
        passed.append(step)
        edge = following
    return None


def _scores_operand(flow: Flow, step: Step) -> Edge | None:
    """The operand of a scaling or masking step that the scores come in by."""
    if step.op in ("Cast", "Tanh"):
        return step.input(0)
    if step.op not in ("Add", "Mul", "Div", "Where", "Reshape"):
        return None
    if step.op in ("Mul", "Div"):
        scalars = [e for e in step.inputs if e is not None and e.scalar is not None]
        others = [e for e in step.inputs if e is not None and e.scalar is None]
        return others[0] if len(scalars) == 1 and len(others) == 1 else None
    if step.op == "Reshape":
        x = step.input(0)
        return x if x is not None and x.shape == step.out.shape else None
    wanted = [e for e in step.inputs if e is not None and _leads_to_product(flow, e, 0)]
    return wanted[0] if len(wanted) == 1 else None


def _leads_to_product(flow: Flow, edge: Edge, depth: int) -> bool:
    step = flow.maker.get(edge)
    if step is None or depth > _MAX_BEFORE:
        return False
    if step.op in ("MatMul", "com.microsoft::FusedMatMul"):
        return True
    if step.op not in ("Add", "Mul", "Div", "Where", "Cast", "Tanh", "Reshape"):
        return False
    return any(e is not None and _leads_to_product(flow, e, depth + 1) for e in step.inputs)


def _scaled_source(flow: Flow, edge: Edge | None) -> tuple[Edge, list[Step]] | None:
    """An operand before it was scaled by a number."""
    if edge is None:
        return None
    step = flow.made_by(edge, "Mul", "Div")
    if step is not None and step.inputs[1] is not None and step.inputs[1].scalar is not None:
        return step.x(), [step]
    return edge, []


def _keys(flow: Flow, product: Step) -> tuple[Edge, list[Step]] | None:
    """The keys, tokens before width, and the steps that scale them."""
    source = _scaled_source(flow, product.input(1))
    if source is None:
        return None
    if product.attrs.get("transB"):
        return source
    return _swapped(flow, source[0], product), source[1]


def _turned(flow: Flow, product: Step) -> Edge:
    return product.x(1) if product.attrs.get("transB") else _swapped(flow, product.x(1), product)


def _swapped(flow: Flow, edge: Edge, product: Step) -> Edge:
    """The same memory with the last two dimensions swapped: a view that costs nothing."""
    shape = edge.shape or ()
    rank = len(shape)
    found = Edge(f"{edge.name}_swapped", (*shape[:-2], shape[-1], shape[-2]), edge.code)
    step = successor(product, "Transpose", [edge], found)
    step.attrs["perm"] = [*range(rank - 2), rank - 1, rank - 2]
    flow.insert_before(product, step)
    return found


def _fit(q: Edge, k: Edge, v: Edge, out: Edge) -> bool:
    shapes = [e.shape for e in (q, k, v, out)]
    if any(s is None or len(s) < 3 for s in shapes):
        return False
    a, b, c, d = (s or () for s in shapes)
    if a[-1] != b[-1] or b[-2] != c[-2] or not len(a) == len(b) == len(c):
        return False
    return a[:-2] == b[:-2] == c[:-2] == d[:-2]
