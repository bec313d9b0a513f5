"""1 / (1 + exp(-x)), as lowerings without a logistic operation write it."""

from __future__ import annotations

from gambrel.capture.onnx.patterns.flow import Flow, successor


def recognise_sigmoids(flow: Flow) -> None:
    """Replaces it by one step."""
    for quotient in flow.steps("Div"):
        if quotient.x(0).scalar != 1 or quotient.input(1) is None:
            continue
        total = flow.made_by(quotient.x(1), "Add")
        if total is None or 1 not in (total.x(0).scalar, total.x(1).scalar):
            continue
        power = next((m for e in total.inputs if (m := flow.made_by(e, "Exp"))), None)
        turned = None if power is None else flow.made_by(power.x(), "Neg")
        if power is None or turned is None:
            continue
        steps = [turned, power, total, quotient]
        if all(flow.is_internal(s.out, steps) for s in steps[:-1]):
            flow.replace(steps, successor(quotient, "Sigmoid", [turned.x()], quotient.out))
