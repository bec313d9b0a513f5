"""Steps that change nothing: their result is their input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from gambrel.capture.onnx.edges import Edge, Step
from gambrel.capture.onnx.folding import axis_list


def alias_of(step: Step) -> Edge | None:
    """The edge that a step hands on unchanged; None where it does something."""
    test = _TESTS.get(step.op)
    if test is None or not step.inputs or step.inputs[0] is None:
        return None
    x, out = step.x(), step.out
    if len([e for e in step.outputs if e is not None]) > 1 or x.members is not None:
        return None
    if x.shape is None or x.shape != out.shape or x.code != out.code:
        return x if step.op == "Identity" else None
    return x if test(step) else None


def _always(_: Step) -> bool:
    return True


def _inference(step: Step) -> bool:
    """Dropout outside training; before opset 7 an attribute said so."""
    mode = step.input(2)
    return (mode is None or mode.scalar == 0) and bool(step.attrs.get("is_test", 1))


def _unpermuted(step: Step) -> bool:
    perm = step.attrs.get("perm")
    rank = len(step.x().shape or ())
    order = list(perm) if perm is not None else list(reversed(range(rank)))
    return order == sorted(order)


def _unpadded(step: Step) -> bool:
    given: Any = step.attrs.get("pads", step.attrs.get("paddings"))
    if given is None:
        pads = step.input(1)
        given = None if pads is None or pads.value is None else axis_list(pads.value)
    return given is not None and not any(given)


def _forward(step: Step) -> bool:
    """A slice as long as its input and in its order."""
    strides = step.input(4)
    return strides is None or (strides.value is not None and bool((strides.value == 1).all()))


_TESTS: Final[dict[str, Callable[[Step], bool]]] = {
    "Identity": _always,
    "Cast": _always,
    "CastLike": _always,
    "Reshape": _always,
    "Expand": _always,
    "Flatten": _always,
    "Squeeze": _always,
    "Unsqueeze": _always,
    "Split": _always,
    "Concat": lambda step: len(step.inputs) == 1,
    "Sum": lambda step: len(step.inputs) == 1,
    "Tile": _always,
    "Dropout": _inference,
    "Transpose": _unpermuted,
    "Pad": _unpadded,
    "Slice": _forward,
}
