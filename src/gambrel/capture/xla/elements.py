"""Element types of XLA, as JAX, MLIR and HLO spell them."""

from __future__ import annotations

from typing import Final

#: onnx.TensorProto.DataType → spellings in numpy and JAX, MLIR, HLO text.
_SPELLINGS: Final[dict[int, str]] = {
    1: "float32 f32",
    2: "uint8 ui8 u8",
    3: "int8 i8 s8",
    4: "uint16 ui16 u16",
    5: "int16 i16 s16",
    6: "int32 i32 s32",
    7: "int64 i64 s64",
    9: "bool i1 pred",
    10: "float16 f16",
    11: "float64 f64",
    12: "uint32 ui32 u32",
    13: "uint64 ui64 u64",
    14: "complex64 complex<f32> c64",
    15: "complex128 complex<f64> c128",
    16: "bfloat16 bf16",
    17: "float8_e4m3fn f8E4M3FN f8e4m3fn float8_e4m3 f8E4M3 f8e4m3 float8_e4m3b11fnuz"
    " f8E4M3B11FNUZ f8e4m3b11fnuz float8_e4m3fnuz f8E4M3FNUZ f8e4m3fnuz float8_e3m4 f8E3M4 f8e3m4",
    19: "float8_e5m2 f8E5M2 f8e5m2 float8_e5m2fnuz f8E5M2FNUZ f8e5m2fnuz",
    21: "uint4 ui4 u4",
    22: "int4 i4 s4",
    23: "float4_e2m1fn f4E2M1FN f4e2m1fn",
    24: "float8_e8m0fnu f8E8M0FNU f8e8m0fnu",
    25: "uint2 ui2 u2",
    26: "int2 i2 s2",
}
CODES: Final = {name: code for code, names in _SPELLINGS.items() for name in names.split()}
#: Code → numpy type of the numbers that are evaluated while reading; bf16 as fp32.
NUMPY: Final[dict[int, str]] = {
    code: names.split()[0] for code, names in _SPELLINGS.items() if code < 14
} | {16: "float32"}

BOOL: Final = CODES["bool"]
REAL: Final = frozenset({1, 10, 11, 16, 17, 19, 23, 24})


def code_of(name: str) -> int:
    """onnx.TensorProto.DataType of an element type; 0 for tokens, keys and unknown ones."""
    return CODES.get(name, 0)
