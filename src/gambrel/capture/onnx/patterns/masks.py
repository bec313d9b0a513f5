"""What masks of attention let through: a triangle, a band under it, by values or how it is made."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from gambrel.capture.onnx.edges import Edge, Step
from gambrel.capture.onnx.folding import fold
from gambrel.capture.onnx.patterns.flow import Flow

#: What is added to a score to hide it is this or less: e^-1000 is nothing in any number format. The
#: largest that models write is the -10,000 of the first BERT.
HIDDEN: Final = -1000.0
#: Elements of the largest mask that is evaluated: 4,096 tokens.
_MAX_ELEMENTS: Final = 2**24
#: Steps from a mask back to what it is made of.
_MAX_DEPTH: Final = 16
_FORMS: Final = frozenset({"Cast", "Reshape", "Unsqueeze", "Squeeze", "Expand", "Identity"})
_COMPARISONS: Final = frozenset({"Less", "LessOrEqual", "Greater", "GreaterOrEqual"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """The pairs of queries and keys that are left.

    Attributes:
        attrs: Of the attention: ``causal``, ``alignment`` and ``window``; none where all are left.
        mask: What hides more than that, which is read; None where nothing does.
        known: Masks that need not be read.
    """

    attrs: dict[str, Any]
    mask: Edge | None = None
    known: list[Edge] = field(default_factory=list)


class Masks:
    """The masks of a trace; each is looked into once."""

    def __init__(self, flow: Flow) -> None:
        """Takes the steps that make them."""
        self._flow = flow
        self._values: dict[Edge, Any] = {}

    def pairs(self, masks: Iterable[tuple[Edge, bool]]) -> Pairs:
        """What all masks of an attention together leave.

        Args:
            masks: Booleans, or numbers that are added to the scores; whether true says what is
                hidden rather than what is seen.
        """
        attrs: dict[str, Any] = {}
        known: list[Edge] = []
        left: list[Edge] = []
        for mask, hides in masks:
            found = self._left(mask, hides, 0)
            attrs.update(found[0] if found is not None else {})
            (known if found is not None and found[1] else left).append(mask)
        return Pairs(attrs=attrs, mask=left[0] if left else None, known=known)

    def _left(self, mask: Edge, hides: bool, depth: int) -> tuple[dict[str, Any], bool] | None:
        """The attributes of one mask, and whether they say all about it."""
        value = self._value(mask, depth)
        if value is not None:
            return _known(~value if hides and value.dtype.kind == "b" else value)
        step = self._flow.maker.get(mask)
        if step is None or depth > _MAX_DEPTH:
            return None
        inputs = [e for e in step.inputs if e is not None]
        if step.op in _COMPARISONS:
            return ({"causal": True}, True) if self._compares_places(step) else None
        if step.op == "Where":
            first = _hides_where_true(step, hides)
            return None if first is None else self._left(step.x(), first, depth + 1)
        if step.op == "Not":
            return self._left(step.x(), not hides, depth + 1)
        if step.op in _FORMS:
            return self._left(inputs[0], hides, depth + 1) if _same_elements(step) else None
        if step.op not in ("Add", "Min", "Or" if hides else "And"):
            return None
        parts = (self._left(e, hides, depth + 1) for e in inputs)
        return next(((part[0], False) for part in parts if part is not None and part[0]), None)

    def _compares_places(self, step: Step) -> bool:
        """A column of consecutive numbers against a row of as many: half of all pairs."""
        shape, sides = step.out.shape or (), [e for e in step.inputs if e is not None]
        if len(shape) < 2 or shape[-1] != shape[-2] or shape[-1] < 2:
            return False
        tokens = shape[-1]
        forms = {tuple(e.shape or ())[-2:] for e in sides}
        crossed = forms in ({(tokens, 1), (1, tokens)}, {(tokens, 1), (tokens,)})
        return crossed and all(map(self._is_range, sides))

    def _is_range(self, edge: Edge) -> bool:
        """Whether a tensor is a range of numbers in another form."""
        for _ in range(_MAX_DEPTH):
            step = self._flow.maker.get(edge)
            if step is None or step.op in ("Range", "Constant"):
                return step is not None
            if step.op not in _FORMS or not _same_elements(step):
                return False
            edge = step.x()
        return False

    def _value(self, edge: Edge, depth: int) -> Any:
        """The elements of a tensor, evaluated as far back as need be; None where not known."""
        if edge.value is not None or depth > _MAX_DEPTH or edge.numel > _MAX_ELEMENTS:
            return edge.value
        if edge not in self._values:
            self._values[edge] = self._evaluated(edge, depth)
        return self._values[edge]

    def _evaluated(self, edge: Edge, depth: int) -> Any:
        if edge.is_stored:
            read = self._flow.trace.read_stored
            return None if read is None else read(edge)
        step = self._flow.maker.get(edge)
        if step is None or step.out is not edge or not step.inputs:
            return None
        known: list[Edge | None] = []
        for given in step.inputs:
            if given is None:
                known.append(None)
                continue
            value = self._value(given, depth + 1)
            if value is None:
                return None
            known.append(Edge(given.name, value.shape, given.code, value))
        again = Step(step.op, known, step.outputs, step.attrs, version=step.version)
        found = fold(again, largest=_MAX_ELEMENTS)
        return None if found is None or found[0].shape != edge.shape else found[0]


def _hides_where_true(step: Step, hides: bool) -> bool | None:
    """Of a choice between two numbers, of which one hides: whether that is the first."""
    one, two = (e.scalar if e is not None else None for e in (step.input(1), step.input(2)))
    if one is None or two is None or one == two:
        return None
    return one > two if hides else one < two


def _same_elements(step: Step) -> bool:
    """Whether a change of form repeats nothing."""
    return step.op != "Expand" or step.x().numel == step.out.numel


def _known(value: Any) -> tuple[dict[str, Any], bool] | None:
    """The attributes of a mask of known elements, and whether they say all about it.

    A bias that hides nothing has to be read like any other operand, unless it is the same
    everywhere, which a softmax takes out again.
    """
    seen = value if value.dtype.kind == "b" else value > HIDDEN
    band = _band(seen)
    if band is None:
        return None
    added = value[seen]
    return band, seen is value or not added.size or bool((added == added.flat[0]).all())


def _band(seen: Any) -> dict[str, Any] | None:
    """What known pairs are: all, a triangle, or a band under it; None for any other."""
    if seen.all():
        return {}
    seen = seen.reshape([n for n in seen.shape if n != 1])
    if seen.ndim < 2:
        return None
    rows, columns = seen.shape[-2:]
    seen = seen.reshape(-1, rows, columns)
    if (seen != seen[:1]).any():
        return None
    seen = seen[0]
    for alignment, offset in (("lower_right", columns - rows), ("upper_left", 0)):
        triangle = np.tri(rows, columns, offset, dtype=bool)
        if (seen == triangle).all():
            return {"causal": True, "alignment": alignment}
        window = int(seen.sum(1).max())
        band = triangle & ~np.tri(rows, columns, offset - window, dtype=bool)
        if (seen == band).all():
            return {"causal": True, "alignment": alignment, "window": window}
    return None
