"""OpenVINO layers that need no more than a name: the same in ONNX, or a function."""

from __future__ import annotations

from typing import Final

#: Type → operator of ONNX with the same inputs.
SAME: Final[dict[str, str]] = {
    **{n: n for n in ("Mod", "PRelu", "Elu", "Selu", "Mish", "Sigmoid", "Tanh", "Exp", "Log")},
    **{n: n for n in ("Sqrt", "Abs", "Sign", "Floor", "Round", "Sin", "Cos", "Tan", "Erf")},
    **{n: n for n in ("Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh")},
    **{n: n for n in ("Add", "Equal", "Less", "Greater", "IsNaN", "NonZero", "GatherND")},
    **{n: n for n in ("BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot", "NonMaxSuppression")},
    "Subtract": "Sub",
    "Multiply": "Mul",
    "Divide": "Div",
    "Power": "Pow",
    "Maximum": "Max",
    "Minimum": "Min",
    "FloorMod": "Mod",
    "Negative": "Neg",
    "Ceiling": "Ceil",
    "ReLU": "Relu",
    "HardSigmoid": "HardSigmoid",
    "HSigmoid": "HardSigmoid",
    "HSwish": "HardSwish",
    "SoftPlus": "Softplus",
    "SoftSign": "Softsign",
    "Clamp": "Clip",
    "Select": "Where",
    "LessEqual": "LessOrEqual",
    "GreaterEqual": "GreaterOrEqual",
    "LogicalNot": "Not",
    "LogicalAnd": "And",
    "LogicalOr": "Or",
    "LogicalXor": "Xor",
    "Broadcast": "Expand",
    "Tile": "Tile",
    "Pad": "Pad",
    "DepthToSpace": "DepthToSpace",
    "SpaceToDepth": "SpaceToDepth",
    "ShuffleChannels": "DepthToSpace",
    "BatchToSpace": "DepthToSpace",
    "SpaceToBatch": "SpaceToDepth",
    "ReverseSequence": "ReverseSequence",
    "Reverse": "ReverseSequence",
    "Roll": "ReverseSequence",
    "ScatterUpdate": "ScatterND",
    "ScatterNDUpdate": "ScatterND",
    "ScatterElementsUpdate": "ScatterElements",
    "GatherElements": "GatherElements",
    "RMS": "RMSNormalization",
    "NormalizeL2": "LpNormalization",
    "LogSoftmax": "LogSoftmax",
    "RandomUniform": "RandomUniform",
    "OneHot": "OneHot",
}
#: Type → function of `gambrel.ops.elementwise`.
FUNCTIONS: Final[dict[str, str]] = {
    "NotEqual": "compare",
    "IsInf": "isinf",
    "IsFinite": "isfinite",
    "Swish": "silu",
    "ReduceLogicalAnd": "logical",
}
REDUCTIONS: Final[dict[str, str]] = {
    "ReduceMean": "mean",
    "ReduceSum": "sum",
    "ReduceMax": "amax",
    "ReduceMin": "amin",
    "ReduceProd": "prod",
    "ReduceL1": "norm_1",
    "ReduceL2": "norm",
    "ReduceLogicalOr": "any",
}
#: Another look at the same memory.
VIEWS: Final = frozenset({"Reshape", "Squeeze", "Unsqueeze"})
#: Parts of a tensor: where they begin stands in the data, which are not read.
PARTS: Final = frozenset({"StridedSlice", "Slice", "Crop"})
#: Forms, and what only marks a place in the graph.
FREE: Final = frozenset({"ShapeOf", "Result", "Sink"})
