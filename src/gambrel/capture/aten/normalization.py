"""Normalization and softmax, forward and backward."""

from __future__ import annotations

from math import prod

from gambrel.capture.aten.call import Call, Described, TensorArg, rows_along
from gambrel.capture.aten.registry import rule
from gambrel.workload import Attributes


@rule("aten.native_layer_norm", "aten.layer_norm", "aten.rms_norm", "aten._fused_rms_norm")
def layer_norm(call: Call) -> Described:
    """input, normalized_shape, weight, (bias,) eps."""
    function = "rms_norm" if "rms" in call.op else "layer_norm"
    groups = _rows(call.tensor(0), prod(call.arg(1, "normalized_shape")))
    return _forward(call, function, groups, call.optional(2, "weight"))


@rule("aten.native_group_norm")
def native_group_norm(call: Call) -> Described:
    """input, weight, bias, N, C, HxW, group, eps."""
    groups = call.arg(3) * call.arg(6)
    return _forward(call, "group_norm", groups, call.optional(1, "weight"))


@rule("aten.group_norm")
def group_norm(call: Call) -> Described:
    """input, num_groups, weight, bias, eps, cudnn_enabled."""
    groups = call.tensor(0).shape[0] * call.arg(1)
    return _forward(call, "group_norm", groups, call.optional(2, "weight"))


@rule("aten.instance_norm")
def instance_norm(call: Call) -> Described:
    """input, weight, bias, running_mean, running_var, use_input_stats, ..."""
    x = call.tensor(0)
    statistics = bool(call.arg(5, "use_input_stats", True))
    groups = x.shape[0] * x.shape[1]
    return _forward(call, "instance_norm", groups, call.optional(1, "weight"), statistics)


@rule(
    "aten.native_batch_norm",
    "aten.batch_norm",
    "aten._native_batch_norm_legit",
    "aten._native_batch_norm_legit_functional",
    "aten.cudnn_batch_norm",
    "aten.miopen_batch_norm",
    "aten._batch_norm_impl_index",
)
@rule("aten._native_batch_norm_legit_no_training", "aten._batch_norm_no_update")
@rule("aten._batch_norm_with_update", "aten._batch_norm_with_update_functional")
def batch_norm(call: Call) -> Described:
    """input, weight, bias, running_mean, running_var, training (if its name does not say), ...

    In training, running statistics are updated in place where there are any.
    """
    without = call.overload.startswith("no_stats")
    training = "_with_update" in call.op
    if not training and not call.op.endswith(("no_training", "no_update")):
        training = bool(call.arg(3 if without else 5, "training", False))
    channels = call.tensor(0).shape[1]
    found = _forward(call, "batch_norm", channels, call.optional(1, "weight"), training)
    if not training or "functional" in call.op or without:
        return found
    updated = [call.optional(3, "running_mean"), call.optional(4, "running_var")]
    attrs = {**found.attrs, "running": updated[0] is not None}
    return call.described(found.kind, found.sizes, attrs, outputs=[*call.outputs, *updated])


@rule("aten.native_layer_norm_backward", "aten._fused_rms_norm_backward")
def layer_norm_backward(call: Call) -> Described:
    """grad, input, normalized_shape, (mean,) rstd, weight, ..."""
    rms = "rms" in call.op
    width = prod(call.arg(2, "normalized_shape"))
    weight = call.optional(4 if rms else 5, "weight")
    return _backward(
        call, "rms_norm" if rms else "layer_norm", _rows(call.tensor(1), width), weight
    )


@rule("aten.native_group_norm_backward")
def group_norm_backward(call: Call) -> Described:
    """grad, input, mean, rstd, weight, N, C, HxW, group, output_mask."""
    return _backward(call, "group_norm", call.arg(5) * call.arg(8), call.optional(4, "weight"))


@rule(
    "aten.native_batch_norm_backward",
    "aten.cudnn_batch_norm_backward",
    "aten.miopen_batch_norm_backward",
    "aten.batch_norm_backward",
)
def batch_norm_backward(call: Call) -> Described:
    """grad, input, weight, running and saved statistics, train, ..."""
    statistics = True
    if call.name in ("native_batch_norm_backward", "batch_norm_backward"):
        name = "train" if call.name.startswith("native") else "update"
        statistics = bool(call.arg(7, name, True))
    channels = call.tensor(1).shape[1]
    return _backward(call, "batch_norm", channels, call.optional(2, "weight"), statistics)


@rule("aten._softmax", "aten.softmax", "aten._safe_softmax", "aten.special_softmax")
@rule("aten._log_softmax", "aten.log_softmax", "aten.special_log_softmax", "aten._masked_softmax")
@rule("aten._softmax_backward_data", "aten._log_softmax_backward_data")
def softmax(call: Call) -> Described:
    """self, (mask,) dim, ... or grad_output, output, dim, ..."""
    backward = call.name.endswith("_backward_data")
    x = call.tensor(0)
    dim = call.arg(2 if backward or "masked" in call.op else 1, "dim", -1)
    sizes = {"elements": x.numel, "rows": rows_along(x, dim)}
    function = "log_softmax" if "log" in call.op else "softmax"
    kind = "softmax_backward" if backward else "softmax"
    return call.described(kind, sizes, {"function": function})


@rule("aten._weight_norm_interface")
def weight_norm(call: Call) -> Described:
    """v, g, dim: every slice along dim scaled to the length g."""
    v = call.tensor(0)
    groups = v.shape[call.arg(2, "dim", 0)]
    return _forward(call, "rms_norm", groups, None)  # the same arithmetic: square, sum, root, scale


@rule("aten._weight_norm_interface_backward")
def weight_norm_backward(call: Call) -> Described:
    """grad_w, saved_v, saved_g, saved_norms, dim."""
    groups = call.tensor(1, "saved_v").shape[call.arg(4, "dim")]
    return _backward(call, "rms_norm", groups, None)


def _rows(x: TensorArg, width: int) -> int:
    return x.numel // width if width else 0


def _forward(
    call: Call, function: str, groups: int, weight: TensorArg | None, statistics: bool = True
) -> Described:
    sizes = {"elements": call.tensor(0, "input").numel, "groups": groups}
    return call.described("normalization", sizes, _attrs(function, statistics, weight))


def _backward(
    call: Call, function: str, groups: int, weight: TensorArg | None, statistics: bool = True
) -> Described:
    sizes = {"elements": call.tensor(1, "input").numel, "groups": groups}
    if weight is not None:
        sizes["parameters"] = weight.numel
    return call.described("normalization_backward", sizes, _attrs(function, statistics, weight))


def _attrs(function: str, statistics: bool, weight: TensorArg | None) -> Attributes:
    return {"function": function, "statistics": statistics, "affine": weight is not None}
