"""exp(x - max(x)) / sum(exp(x - max(x))), and its logarithm."""

from __future__ import annotations

from typing import Final

from gambrel.capture.onnx.edges import Edge, Step
from gambrel.capture.onnx.patterns.flow import Flow, successor
from gambrel.capture.onnx.patterns.paths import FORMS, back, is_closed

#: The same numbers in another order.
_TURNS: Final = ("Cast", "Reshape", "Transpose")


def recognise_softmax(flow: Flow) -> None:
    """Replaces them by one step each."""
    for power in flow.steps("Exp"):
        shifted = flow.made_by(power.x(), "Sub")
        if shifted is not None:
            _ = _softmax(flow, power, shifted) or _log_softmax(flow, power, shifted)


def _shift(flow: Flow, shifted: Step) -> tuple[Edge, list[Step]] | None:
    """The argument and the steps that take its maximum away."""
    x = shifted.x(0)
    edge, passed = back(flow, shifted.input(1))
    largest = flow.made_by(edge, "xla::reduce")
    if largest is None or largest.attrs.get("function") != "maximum":
        return None
    source, casts = back(flow, largest.x(), _TURNS)
    if source is not back(flow, x, _TURNS)[0]:
        return None
    common = set(back(flow, x, _TURNS)[1])
    own = [s for s in casts if s not in common]
    return x, [shifted, largest, *passed, *own]


def _total(flow: Flow, edge: Edge, power: Step) -> tuple[list[Step], list[int]] | None:
    """The steps from the exponentials to an edge that is their sum, repeated; its dimensions."""
    source, passed = back(flow, edge)
    total = flow.made_by(source, "xla::reduce")
    if total is None or total.attrs.get("function") != "add":
        return None
    start, casts = back(flow, total.x(), ("Cast",))
    axes = [int(a) for a in total.attrs["axes"]]
    return ([*passed, total, *casts], axes) if start is power.out else None


def _softmax(flow: Flow, power: Step, shifted: Step) -> bool:
    quotients = [r for r in flow.readers(power.out) if r.op == "Div" and r.x(0) is power.out]
    before = _shift(flow, shifted)
    if len(quotients) != 1 or before is None:
        return False
    x, steps = before
    total = _total(flow, quotients[0].x(1), power)
    if total is None:
        return False
    return _put(flow, "softmax", x, [power, *steps, *total[0]], quotients[0], total[1])


def _log_softmax(flow: Flow, power: Step, shifted: Step) -> bool:
    before = _shift(flow, shifted)
    others = [r for r in flow.readers(shifted.out) if r.op == "Sub" and r.x(0) is shifted.out]
    if before is None or len(others) != 1:
        return False
    x, steps = before
    edge, passed = back(flow, others[0].x(1), FORMS)
    logarithm = flow.made_by(edge, "Log")
    total = None if logarithm is None else _total(flow, logarithm.x(), power)
    if logarithm is None or total is None:
        return False
    inside = [power, *steps, *passed, logarithm, *total[0]]
    return _put(flow, "log_softmax", x, inside, others[0], total[1])


def _put(
    flow: Flow, function: str, x: Edge, inside: list[Step], end: Step, axes: list[int]
) -> bool:
    steps = list(dict.fromkeys([*inside, end]))
    if len(axes) != 1 or x.shape is None or not is_closed(flow, steps, end):
        return False
    new = successor(end, "xla::softmax", [x], end.out)
    new.attrs = {"function": function, "axis": axes[0], "length": x.shape[axes[0]]}
    new.label = function
    flow.replace(steps, new)
    return True
