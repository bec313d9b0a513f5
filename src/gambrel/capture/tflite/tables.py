"""TFLite operators that need no more than a name: the same in ONNX, or a function."""

from __future__ import annotations

from typing import Final

#: Operator → operator of ONNX with the same inputs; a fused activation follows.
SAME: Final[dict[str, str]] = {
    "ADD": "Add",
    "SUB": "Sub",
    "MUL": "Mul",
    "DIV": "Div",
    "POW": "Pow",
    "MAXIMUM": "Max",
    "MINIMUM": "Min",
    "ADD_N": "Sum",
    "LOGISTIC": "Sigmoid",
    "TANH": "Tanh",
    "RELU": "Relu",
    "RELU6": "Clip",
    "RELU_N1_TO_1": "Clip",
    "RELU_0_TO_1": "Clip",
    "LEAKY_RELU": "LeakyRelu",
    "PRELU": "PRelu",
    "ELU": "Elu",
    "HARD_SWISH": "HardSwish",
    "SELECT": "Where",
    "SELECT_V2": "Where",
    "CAST": "Cast",
    "BITCAST": "Cast",
    "FLOOR_MOD": "Mod",
    "GATHER_ND": "GatherND",
    "TILE": "Tile",
    "PAD": "Pad",
    "PADV2": "Pad",
    "MIRROR_PAD": "Pad",
    "SPACE_TO_DEPTH": "SpaceToDepth",
    "DEPTH_TO_SPACE": "DepthToSpace",
    "SPACE_TO_BATCH_ND": "SpaceToDepth",
    "BATCH_TO_SPACE_ND": "DepthToSpace",
    "REVERSE_V2": "ReverseSequence",
    "REVERSE_SEQUENCE": "ReverseSequence",
    "BROADCAST_TO": "Expand",
    "RESHAPE": "Reshape",
    "SQUEEZE": "Reshape",
    "EXPAND_DIMS": "Reshape",
    "WHERE": "NonZero",
    "UNIQUE": "Unique",
    "RANDOM_UNIFORM": "RandomUniform",
    "RANDOM_STANDARD_NORMAL": "RandomNormal",
    "MULTINOMIAL": "Multinomial",
}
#: Operator → function of `gambrel.ops.elementwise`.
FUNCTIONS: Final[dict[str, str]] = {
    **{n: n.lower() for n in ("ABS", "NEG", "SIGN", "EXP", "LOG", "SQRT", "RSQRT", "SIN", "COS")},
    **{n: n.lower() for n in ("SQUARE", "ATAN2", "FLOOR", "CEIL", "ROUND")},
    **dict.fromkeys(("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER"), "compare"),
    **dict.fromkeys(("LOGICAL_AND", "LOGICAL_OR", "LOGICAL_NOT"), "logical"),
    "GREATER_EQUAL": "compare",
    "BITWISE_XOR": "bitwise",
    "RIGHT_SHIFT": "shift",
    "FLOOR_DIV": "floor_divide",
    "QUANTIZE": "quantize",
    "FAKE_QUANT": "fake_quantize",
    "COMPLEX_ABS": "abs",
}
REDUCTIONS: Final[dict[str, str]] = {
    "MEAN": "mean",
    "SUM": "sum",
    "REDUCE_PROD": "prod",
    "REDUCE_MAX": "amax",
    "REDUCE_MIN": "amin",
    "REDUCE_ANY": "any",
    "REDUCE_ALL": "all",
    "ARG_MAX": "argmax",
    "ARG_MIN": "argmin",
}
POOLS: Final = {"AVERAGE_POOL_2D": "avg", "MAX_POOL_2D": "max", "L2_POOL_2D": "lp"}
FILLS: Final = frozenset({"FILL", "ZEROS_LIKE", "RANGE"})
#: Say something of a tensor's form, or name a resource: nothing runs on the device.
FREE: Final = frozenset({"SHAPE", "RANK", "VAR_HANDLE", "BROADCAST_ARGS"})
#: tflite.ActivationFunctionType → function.
ACTIVATIONS: Final = {1: "relu", 2: "clamp", 3: "relu6", 4: "tanh", 5: "sign"}
