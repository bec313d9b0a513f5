"""In which format a device computes work in a format that it has no roof for: tables only.

`gambrel.device.roofs` reads them. The order is that of hardware and of the software that comes with
it: first a format of the same width or the next wider one that holds the values, then what is left.
"""

from __future__ import annotations

from typing import Final

from gambrel.dtypes import BITS, GGUF_BITS, GGUF_MIXES

_WIDE: Final = ("fp16", "bf16", "fp32")

#: For matrix work in a format: the formats whose roofs are tried, in order.
MATRIX_FALLBACKS: Final[dict[str, tuple[str, ...]]] = {
    "fp64": ("fp64",),  # nothing narrower computes it
    # Nothing narrower computes fp32 either; a TPU emulates it with several bf16 passes, at a rate
    # that is not published, so it stays unknown there.
    "fp32": ("fp32",),
    "tf32": ("tf32", "fp32"),  # the same values on the vector engine
    # fp32 holds every bf16 value; fp16 does not, so it comes last, for parts that take only fp16.
    "bf16": ("bf16", "fp32", "fp16"),
    "fp16": ("fp16", "bf16", "fp32"),  # a TPU runs fp16 models in bf16
    # Narrow floats without an engine are stored narrow and converted when they are loaded. Any
    # fp8 value fits fp16 (e5m2 has the exponent of fp16), so fp16 comes before bf16.
    "fp8": ("fp8", "bfp8", *_WIDE),
    "mxfp8": ("mxfp8", "fp8", "bfp8", *_WIDE),
    "bfp8": ("bfp8", "fp8", *_WIDE),
    "fp6": ("fp6", "fp8", *_WIDE),
    "fp4": ("fp4", "fp8", "bfp8", *_WIDE),
    "mxfp4": ("mxfp4", "fp4", "fp8", "bfp8", *_WIDE),
    "nvfp4": ("nvfp4", "fp4", "fp8", "bfp8", *_WIDE),
    # int8 on any engine comes first, the vector units' dot products (DP4A) included.
    "int8": ("int8", *_WIDE),
    "uint8": ("uint8", "int8", *_WIDE),
    "int4": ("int4", "int8", *_WIDE),
    "int2": ("int2", "int4", "int8", *_WIDE),
    # No matrix engine takes wide integers; the vector units' fp32 lanes bound them.
    "int16": ("int16", "fp32"),
    "int32": ("int32", "fp32"),
    "int64": ("int64", "fp32"),
    "bool": ("bool", "fp32"),
    # Work on complex numbers is counted in real operations.
    "complex64": ("fp32",),
    "complex128": ("fp64",),
    # Blocks of GGUF files are converted when they are loaded.
    **dict.fromkeys((*GGUF_BITS, *GGUF_MIXES), _WIDE),
}

_FLOAT8: Final = ("fp8", "mxfp8", "bfp8")
_FLOAT4: Final = ("fp4", "mxfp4", "nvfp4")

#: Formats that count as the same precision when the question is how fast work may be at best: what
#: frameworks and libraries use by default for work in the format (TF32 for fp32 convolutions), and
#: formats that differ only in their scales. Other formats count as themselves alone.
COUNTS_AS: Final[dict[str, tuple[str, ...]]] = {
    "fp32": ("fp32", "tf32"),
    "tf32": ("tf32", "fp32"),
    **dict.fromkeys(_FLOAT8, _FLOAT8),
    **dict.fromkeys(_FLOAT4, _FLOAT4),
    **dict.fromkeys(("int8", "uint8"), ("int8", "uint8")),
    "complex64": ("fp32", "tf32"),
    "complex128": ("fp64",),
    # Their blocks are multiplied in int8 (llama.cpp), or widened first.
    **dict.fromkeys((*GGUF_BITS, *GGUF_MIXES), ("int8", "fp8", "fp16", "bf16")),
}

INTEGERS: Final = frozenset({"int64", "int32", "int16", "int8", "uint8", "int4", "int2", "bool"})

#: For element-wise work in a format. Where no 16-bit vector rate is published, 16-bit values are
#: computed in fp32 lanes. Narrower floats are always widened. The integer rate of vector units is
#: hardly ever published (a DP4A peak counts dot products, not element-wise work): fp32 bounds it.
VECTOR_FALLBACKS: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(BITS, ("fp32",)),
    "fp64": ("fp64",),
    "complex128": ("fp64",),
    "fp16": ("fp16", "fp32"),
    "bf16": ("bf16", "fp32"),
}

_FP4: Final = frozenset({"fp4", "mxfp4", "nvfp4", "fp6"})
_FP8: Final = _FP4 | {"fp8", "mxfp8", "bfp8"}
_NO_BF16: Final = _FP8 | {"bf16", "tf32"}
#: Formats that an architecture is known to lack on its matrix engine, by a part of its name. For
#: others a missing roof may only be unpublished, and the note says so. Sources: the table of
#: arithmetic by compute capability in NVIDIA's CUDA C++ Programming Guide, and the instruction sets
#: of AMD's CDNA and RDNA generations and of Intel's AMX (int8 and bf16, later fp16).
LACKS: Final[dict[str, frozenset[str]]] = {
    "sm_53": _NO_BF16 | {"int8", "int4"},
    "sm_62": _NO_BF16 | {"int8", "int4"},
    "sm_70": _NO_BF16 | {"int8", "int4"},
    "sm_72": _NO_BF16 | {"int4"},
    "sm_75": _NO_BF16,
    "sm_80": _FP8,
    "sm_86": _FP8,
    "sm_87": _FP8,
    "sm_89": _FP4,
    "sm_90": _FP4 | {"int4"},
    "gfx908": _FP8 | {"tf32", "int4"},
    "gfx90a": _FP8 | {"tf32", "int4"},
    "gfx942": _FP4 | {"int4"},
    "gfx1100": _FP8 | {"tf32"},
    "Sapphire Rapids": frozenset({"tf32"}),
    "Emerald Rapids": frozenset({"tf32"}),
    "Granite Rapids": frozenset({"tf32"}),
}
