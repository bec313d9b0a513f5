"""Fused optimizer steps over lists of parameters."""

from __future__ import annotations

from gambrel.capture.aten.call import Call, Described, flatten
from gambrel.capture.aten.registry import rule
from gambrel.workload import Attributes


@rule("aten._fused_adam", "aten._fused_adamw")
def adam(call: Call) -> Described:
    """self, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, *, ..., amsgrad, ..."""
    function = "adamw" if "adamw" in call.op else "adam"
    if call.kwargs.get("amsgrad"):
        function = "adam_amsgrad"
    decays = function != "adamw" and bool(call.kwargs.get("weight_decay"))
    return _step(call, function, decays, states=(2, 3, 4), steps=5)


@rule("aten._fused_sgd")
def sgd(call: Call) -> Described:
    """self, grads, momentum_buffer_list, *, weight_decay, momentum, ..., nesterov, ..."""
    function = "sgd"
    if call.kwargs.get("momentum"):
        function = "sgd_nesterov" if call.kwargs.get("nesterov") else "sgd_momentum"
    return _step(call, function, bool(call.kwargs.get("weight_decay")), states=(2,), steps=None)


@rule("aten._fused_adagrad")
def adagrad(call: Call) -> Described:
    """self, grads, state_sums, state_steps, *, lr, lr_decay, weight_decay, ..."""
    return _step(call, "adagrad", bool(call.kwargs.get("weight_decay")), states=(2,), steps=3)


def _step(
    call: Call, function: str, decays: bool, *, states: tuple[int, ...], steps: int | None
) -> Described:
    """Parameters, gradients and states read; parameters and states written."""
    parameters = tuple(flatten(call.arg(0)))
    kept = [t for position in states for t in flatten(call.arg(position))]
    counters = [] if steps is None else [*flatten(call.arg(steps))]
    inputs = [*parameters, *flatten(call.arg(1, "grads")), *kept, *counters]
    sizes = {"elements": sum(t.numel for t in parameters)}
    attrs: Attributes = {"function": function, "fused": True, "weight_decay": decays}
    outputs = [*parameters, *kept]
    return call.described("optimizer", sizes, attrs, inputs=inputs, outputs=outputs)
