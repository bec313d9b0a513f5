"""Layers of Keras to steps: each rule says what its layer makes and what that takes."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, Final, TypeAlias

from gambrel.capture.graph.lowering import CONVOLUTION, COPY, DENSE, INTERPOLATE, NORM, POOL
from gambrel.capture.keras.call import LayerCall
from gambrel.capture.onnx.edges import Edge
from gambrel.ops.rules import RuleTable
from gambrel.workload import Role

KerasRule: TypeAlias = Callable[[LayerCall], Edge]
RULES: RuleTable[KerasRule] = RuleTable("layer of Keras")

#: Layers that pass their input on in inference.
FREE: Final = frozenset(
    [
        "Dropout",
        "SpatialDropout1D",
        "SpatialDropout2D",
        "SpatialDropout3D",
        "GaussianNoise",
        "GaussianDropout",
        "AlphaDropout",
        "ActivityRegularization",
        "Identity",
        "Masking",
        "RandomFlip",
        "RandomRotation",
        "RandomZoom",
        "RandomTranslation",
        "RandomContrast",
        "RandomBrightness",
        "RandomCrop",
        "StopGradient",
    ]
)
#: Functions by Keras's names → operator of ONNX or, in lower case, element-wise function.
ACTIVATIONS: Final = {
    **{n: n for n in ("gelu", "silu", "mish", "relu6", "celu", "glu", "softsign")},
    "swish": "silu",
    "relu": "Relu",
    "sigmoid": "Sigmoid",
    "tanh": "Tanh",
    "elu": "Elu",
    "selu": "Selu",
    "exponential": "Exp",
    "softplus": "Softplus",
    "hard_sigmoid": "HardSigmoid",
    "hard_silu": "HardSwish",
    "hard_swish": "HardSwish",
    "leaky_relu": "LeakyRelu",
    "log_softmax": "LogSoftmax",
    "softmax": "Softmax",
    "squareplus": "softplus",
}
#: Layers that are one function, by their classes.
FUNCTIONS: Final = {
    "ReLU": "relu",
    "LeakyReLU": "leaky_relu",
    "ELU": "elu",
    "Softmax": "softmax",
    "Sigmoid": "sigmoid",
    "Tanh": "tanh",
    "Gelu": "gelu",
    "Silu": "silu",
    "Relu": "relu",
    "Exp": "exponential",
    "HardSigmoid": "hard_sigmoid",
    "HardSilu": "hard_silu",
    "Softplus": "softplus",
    "Relu6": "relu6",
    "Selu": "selu",
    "LogSoftmax": "log_softmax",
}
#: Functions of one tensor, or of one and a number.
ONE: Final = {
    "Rescaling": "mul",
    "Negative": "Neg",
    "Sqrt": "Sqrt",
    "Absolute": "Abs",
    "Square": "mul",
    "Rsqrt": "sqrt",
    "Clip": "Clip",
    "Cos": "Cos",
    "Sin": "Sin",
    "Log": "Log",
    "Cast": "Cast",
}
#: Functions of two tensors, or of more, one after the other.
MANY: Final = {
    "Add": "Add",
    "Subtract": "Sub",
    "Multiply": "Mul",
    "Maximum": "Max",
    "Minimum": "Min",
    "TrueDivide": "Div",
    "Divide": "Div",
    "Power": "Pow",
    "Average": "Add",
    "Where": "Where",
}


def activated(call: LayerCall, edge: Edge, name: Any) -> Edge:
    """What a function makes of an edge."""
    if isinstance(name, dict):
        config = name.get("config")
        name = config if isinstance(config, str) else name.get("class_name")
    if name is None or name == "linear":
        return edge
    word = ACTIVATIONS.get(str(name).lower())
    out = call.writer.between(edge)
    if word is None:
        call.writer.add(f"keras::{str(name)[:40]}", [edge], [out])
    elif word[0].islower():
        call.writer.function(word, [edge], out)
    else:
        call.writer.add(word, [edge], [out], **({"axis": -1} if "Softmax" in word else {}))
    return out


@RULES("Dense", "EinsumDense")
def _dense(call: LayerCall) -> Edge:
    """Every row of the last dimension meets the kernel."""
    if call.kind == "EinsumDense":
        raise ValueError("an equation of its own")
    units, width = call.whole("units"), call.shape[-1]
    out = call.out((*call.shape[:-1], units))
    bias = call.weight("bias", (units,)) if call.config.get("use_bias", True) else None
    call.writer.add(DENSE, [call.x, call.weight("kernel", (units, width)), bias], [out])
    return activated(call, out, call.config.get("activation"))


def _convolved(
    call: LayerCall, x: Edge, channels: int, groups: int, kernel: tuple[int, ...], name: str
) -> Edge:
    """An image convolved; ``x`` has the form of the first input."""
    rank, into = len(call.positions), call.channels if x is call.x else x.shape[_at(call)]  # type: ignore[index]
    stride, dilation = call.sizes("strides", rank), call.sizes("dilation_rate", rank)
    transposed = "Transpose" in call.kind
    if name == "pointwise_kernel":
        stride = dilation = (1,) * rank
    source = _spatial(call, x)
    made = _slid(str(call.config.get("padding")), source, kernel, stride, dilation, transposed)
    weight = call.weight(name, (channels, max(into // groups, 1), *kernel))
    last = name != "depthwise_kernel" or call.kind.startswith("Depthwise")
    bias = call.config.get("use_bias", True) and last
    out = call.out(call.image(made, channels))
    call.writer.add(
        CONVOLUTION,
        [x, weight, call.weight("bias", (channels,)) if bias else None],
        [out],
        batch=call.shape[0],
        out_channels=channels,
        in_channels=into,
        groups=groups,
        kernel=kernel,
        spatial=source if transposed else made,
        transposed=transposed,
    )
    return out


def _at(call: LayerCall) -> int:
    return 1 if call.channels_first else -1


def _spatial(call: LayerCall, x: Edge) -> tuple[int, ...]:
    shape = x.shape or ()
    return shape[2:] if call.channels_first else shape[1:-1]


def _slid(
    padding: str,
    source: tuple[int, ...],
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    dilation: tuple[int, ...],
    transposed: bool = False,
) -> tuple[int, ...]:
    """Positions of a sliding window: all that fit, or as many as steps (``same``, ``causal``)."""
    made = []
    for n, k, s, d in zip(source, kernel, stride, dilation, strict=True):
        wide = (k - 1) * d + 1
        if transposed:
            made.append(n * s + (0 if padding == "same" else max(wide - s, 0)))
        else:
            made.append((n - wide) // s + 1 if padding == "valid" else -(-n // s))
    return tuple(made)


@RULES("Conv1D", "Conv2D", "Conv3D", "Conv1DTranspose", "Conv2DTranspose", "Conv3DTranspose")
def _convolution(call: LayerCall) -> Edge:
    """Groups divide the channels of both sides."""
    kernel = call.sizes("kernel_size", len(call.positions))
    groups = call.whole("groups", 1)
    out = _convolved(call, call.x, call.whole("filters"), groups, kernel, "kernel")
    return activated(call, out, call.config.get("activation"))


@RULES("DepthwiseConv1D", "DepthwiseConv2D")
def _depthwise(call: LayerCall) -> Edge:
    kernel = call.sizes("kernel_size", len(call.positions))
    channels = call.channels * call.whole("depth_multiplier", 1)
    out = _convolved(call, call.x, channels, call.channels, kernel, "depthwise_kernel")
    return activated(call, out, call.config.get("activation"))


@RULES("SeparableConv1D", "SeparableConv2D")
def _separable(call: LayerCall) -> Edge:
    """A depthwise convolution, then one over channels, which has the bias."""
    rank = len(call.positions)
    kernel = call.sizes("kernel_size", rank)
    channels = call.channels * call.whole("depth_multiplier", 1)
    deep = _convolved(call, call.x, channels, call.channels, kernel, "depthwise_kernel")
    out = _convolved(call, deep, call.whole("filters"), 1, (1,) * rank, "pointwise_kernel")
    return activated(call, out, call.config.get("activation"))


@RULES("BatchNormalization", "LayerNormalization", "RMSNormalization", "GroupNormalization")
def _norm(call: LayerCall) -> Edge:
    """Statistics over the batch are stored; others are computed for each group."""
    shape, name = call.shape, call.kind
    axes = call.config.get("axis", -1)
    axes = [int(a) for a in axes] if isinstance(axes, list) else [int(axes)]
    width = prod(shape[a] for a in axes)
    own = [call.weight("gamma", (width,))] if call.config.get("scale", True) else []
    if call.config.get("center", True) and name != "RMSNormalization":
        own.append(call.weight("beta", (width,)))
    batch = name == "BatchNormalization"
    if batch:
        own += [call.weight(n, (width,), Role.BUFFER) for n in ("moving_mean", "moving_variance")]
    groups = width if batch else call.x.numel // width
    function = "batch_norm" if batch else "layer_norm"
    if name == "RMSNormalization" or call.config.get("rms_scaling"):
        function = "rms_norm"
    elif name == "GroupNormalization":
        count = call.config.get("groups", 32)
        groups, function = shape[0] * (width if count == -1 else int(count)), "group_norm"
    out = call.out(shape)
    call.writer.add(NORM, [call.x, *own], [out], function=function, groups=groups,
                    statistics=not batch)  # fmt: skip
    return out


@RULES("Normalization")
def _normalization(call: LayerCall) -> Edge:
    out = call.out(call.shape)
    call.writer.function("fma", [call.x], out)
    return out


@RULES("MaxPooling1D", "MaxPooling2D", "MaxPooling3D")
@RULES("AveragePooling1D", "AveragePooling2D", "AveragePooling3D")
def _pool(call: LayerCall) -> Edge:
    rank = len(call.positions)
    window = call.sizes("pool_size", rank, 2)
    stride = window if call.config.get("strides") is None else call.sizes("strides", rank)
    padding = str(call.config.get("padding", "valid"))
    made = _slid(padding, call.positions, window, stride, (1,) * rank)
    out = call.out(call.image(made, call.channels))
    kind = "max" if call.kind.startswith("Max") else "avg"
    call.writer.add(POOL, [call.x], [out], function=kind, window=prod(window))
    return out


@RULES("GlobalAveragePooling1D", "GlobalAveragePooling2D", "GlobalAveragePooling3D")
@RULES("GlobalMaxPooling1D", "GlobalMaxPooling2D", "GlobalMaxPooling3D")
def _global_pool(call: LayerCall) -> Edge:
    flat = (call.shape[0], call.channels)
    kept = call.image((1,) * len(call.positions), call.channels)
    out = call.out(kept if call.config.get("keepdims") else flat)
    kind = "avg" if "Average" in call.kind else "max"
    call.writer.add(POOL, [call.x], [out], function=kind, window=prod(call.positions))
    return out


@RULES("UpSampling1D", "UpSampling2D", "UpSampling3D")
def _upsample(call: LayerCall) -> Edge:
    rank = len(call.positions)
    scale = call.sizes("size", rank, 2)
    made = tuple(n * s for n, s in zip(call.positions, scale, strict=True))
    out = call.out(call.image(made, call.channels))
    mode = str(call.config.get("interpolation", "nearest"))
    call.writer.add(INTERPOLATE, [call.x], [out], mode={"bilinear": "linear"}.get(mode, mode))
    return out


@RULES("Resizing")
def _resize(call: LayerCall) -> Edge:
    out = call.out(call.image((call.whole("height"), call.whole("width")), call.channels))
    mode = str(call.config.get("interpolation", "bilinear"))
    call.writer.add(INTERPOLATE, [call.x], [out], mode={"bilinear": "linear"}.get(mode, mode))
    return out


def _borders(call: LayerCall, name: str) -> list[int]:
    """Positions added or cut on both sides of each dimension together."""
    rank, value = len(call.positions), call.config.get(name, 1)
    pairs = value if isinstance(value, list) else [value] * rank
    if rank == 1 and len(pairs) == 2 and not isinstance(pairs[0], list):
        pairs = [pairs]
    return [sum(p) if isinstance(p, list) else 2 * int(p) for p in pairs]


@RULES("ZeroPadding1D", "ZeroPadding2D", "ZeroPadding3D")
def _pad(call: LayerCall) -> Edge:
    extra = _borders(call, "padding")
    made = tuple(n + e for n, e in zip(call.positions, extra, strict=True))
    out = call.out(call.image(made, call.channels))
    call.writer.add("Pad", [call.x], [out])
    return out


@RULES("Cropping1D", "Cropping2D", "Cropping3D")
def _crop(call: LayerCall) -> Edge:
    less = _borders(call, "cropping")
    made = tuple(n - e for n, e in zip(call.positions, less, strict=True))
    out = call.out(call.image(made, call.channels))
    call.writer.add(COPY, [call.x], [out], function="slice")
    return out


@RULES("Flatten", "Reshape")
def _reshape(call: LayerCall) -> Edge:
    rest = prod(call.shape[1:])
    shape: tuple[int, ...] = (call.shape[0], rest)
    if call.kind == "Reshape":
        target = call.config.get("target_shape") or call.config.get("newshape")
        if not isinstance(target, list):
            raise ValueError("a form that is not stated")
        known = prod(n for n in target if n and n > 0)
        shape = (call.shape[0], *(n if n and n > 0 else rest // max(known, 1) for n in target))
    if prod(shape) != call.x.numel:
        raise ValueError("a form of another size")
    return call.writer.reshaped(call.x, shape)


@RULES("Permute")
def _permute(call: LayerCall) -> Edge:
    order = [0, *call.sizes("dims", len(call.shape) - 1)]
    out = call.out(tuple(call.shape[i] for i in order))
    call.writer.add("Transpose", [call.x], [out], perm=order)
    return out


@RULES("RepeatVector")
def _repeat(call: LayerCall) -> Edge:
    out = call.out((call.shape[0], call.whole("n"), *call.shape[1:]))
    call.writer.add("Expand", [call.x], [out])
    return out


@RULES("Concatenate")
def _concatenate(call: LayerCall) -> Edge:
    axis = int(call.config.get("axis", -1)) % len(call.shape)
    total = sum((e.shape or ())[axis] for e in call.inputs)
    out = call.out((*call.shape[:axis], total, *call.shape[axis + 1 :]))
    call.writer.add(COPY, [*call.inputs], [out], function="cat")
    return out


@RULES("Matmul", "Dot")
def _matmul(call: LayerCall) -> Edge:
    if call.kind == "Dot" or len(call.inputs) != 2:
        raise ValueError("axes of its own")
    out = call.out((*call.shape[:-1], (call.inputs[1].shape or (1,))[-1]))
    call.writer.add("MatMul", [*call.inputs], [out])
    return out


@RULES("Embedding")
def _embedding(call: LayerCall) -> Edge:
    """Rows of a table."""
    rows, width = call.whole("input_dim"), call.whole("output_dim")
    out = call.out((*call.shape, width), 1)
    table = call.weight("embeddings", (rows, width))
    table.code = 1 if call.code in (6, 7) else call.code
    call.writer.add("Gather", [table, call.x], [out], axis=0)
    return out
