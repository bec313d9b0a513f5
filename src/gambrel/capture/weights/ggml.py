"""The number formats of GGUF files: values in a block, and bytes that the block takes.

Source: ``enum ggml_type`` in ggml/include/ggml.h and the blocks of ggml/src/ggml-common.h,
https://github.com/ggml-org/llama.cpp (read 2026-11). The width in bits is
``bytes * 8 / values``; e.g. q4_k holds 256 values in two fp16 scales, 12 bytes of 6-bit scales and
128 bytes of 4-bit values: 4 + 12 + 128 = 144 bytes, 4.5 bits a value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class GgmlType:
    """A number format.

    Attributes:
        name: As llama.cpp writes it, lower case.
        block: Values in one block; a row is a whole number of blocks.
        nbytes: Bytes of one block.
    """

    name: str
    block: int
    nbytes: int

    @property
    def bits(self) -> float:
        """Bits a value, scales included."""
        return self.nbytes * 8 / self.block


#: Number in the file → format.
TYPES: Final[dict[int, GgmlType]] = {
    0: GgmlType("f32", 1, 4),
    1: GgmlType("f16", 1, 2),
    2: GgmlType("q4_0", 32, 18),
    3: GgmlType("q4_1", 32, 20),
    6: GgmlType("q5_0", 32, 22),
    7: GgmlType("q5_1", 32, 24),
    8: GgmlType("q8_0", 32, 34),
    9: GgmlType("q8_1", 32, 36),
    10: GgmlType("q2_k", 256, 84),
    11: GgmlType("q3_k", 256, 110),
    12: GgmlType("q4_k", 256, 144),
    13: GgmlType("q5_k", 256, 176),
    14: GgmlType("q6_k", 256, 210),
    15: GgmlType("q8_k", 256, 292),
    16: GgmlType("iq2_xxs", 256, 66),
    17: GgmlType("iq2_xs", 256, 74),
    18: GgmlType("iq3_xxs", 256, 98),
    19: GgmlType("iq1_s", 256, 50),
    20: GgmlType("iq4_nl", 32, 18),
    21: GgmlType("iq3_s", 256, 110),
    22: GgmlType("iq2_s", 256, 82),
    23: GgmlType("iq4_xs", 256, 136),
    24: GgmlType("i8", 1, 1),
    25: GgmlType("i16", 1, 2),
    26: GgmlType("i32", 1, 4),
    27: GgmlType("i64", 1, 8),
    28: GgmlType("f64", 1, 8),
    29: GgmlType("iq1_m", 256, 56),
    30: GgmlType("bf16", 1, 2),
    34: GgmlType("tq1_0", 256, 54),
    35: GgmlType("tq2_0", 256, 66),
    39: GgmlType("mxfp4", 32, 17),
    40: GgmlType("nvfp4", 64, 36),
    41: GgmlType("q1_0", 128, 18),
}

#: Numbers that were in use once: files with them cannot be read by today's programs either.
REMOVED: Final[dict[int, str]] = {
    4: "q4_2",
    5: "q4_3",
    31: "q4_0_4_4",
    32: "q4_0_4_8",
    33: "q4_0_8_8",
    36: "iq4_nl_4_4",
    37: "iq4_nl_4_8",
    38: "iq4_nl_8_8",
}
