"""Fused optimizer steps over lists of parameters."""

from __future__ import annotations

from gambrel.capture.aten.call import Call, Described, flatten
from gambrel.capture.aten.registry import rule
from gambrel.workload import Attributes


@rule("aten._fused_adam", "aten._fused_adamw")
def adam(call: Call) -> Described:
    """self, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, ..."""
    function = "adamw" if "adamw" in call.op else "adam"
    return _step(call, function, states=(2, 3, 4), read=(5,))


@rule("aten._fused_sgd")
def sgd(call: Call) -> Described:
    """self, grads, momentum_buffer_list, ..."""
    momentum = any(True for _ in flatten(call.arg(2, "momentum_buffer_list")))
    return _step(call, "sgd_momentum" if momentum else "sgd", states=(2,), read=())


@rule("aten._fused_adagrad")
def adagrad(call: Call) -> Described:
    """self, grads, state_sums, state_steps, ..."""
    return _step(call, "adagrad", states=(2,), read=(3,))


def _step(
    call: Call, function: str, *, states: tuple[int, ...], read: tuple[int, ...]
) -> Described:
    """Parameters, gradients and states read; parameters and states written."""
    parameters = tuple(flatten(call.arg(0, "self")))
    kept = [t for position in states for t in flatten(call.arg(position))]
    steps = [t for position in read for t in flatten(call.arg(position))]
    inputs = [*parameters, *flatten(call.arg(1, "grads")), *kept, *steps]
    sizes = {"elements": sum(t.numel for t in parameters)}
    attrs: Attributes = {"function": function, "fused": True}
    return call.described("optimizer", sizes, attrs, inputs=inputs, outputs=[*parameters, *kept])
