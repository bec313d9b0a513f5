"""Number formats: their names, their width in memory, and how people spell them."""

from __future__ import annotations

import re
from typing import Final

from gambrel.errors import UnknownNameError

#: Formats of the blocks in GGUF files, scales included: bytes of a block x 8 / values in it
#: (ggml-common.h of https://github.com/ggml-org/llama.cpp). Weights are stored in them; arithmetic
#: is done in a wider format.
GGUF_BITS: Final[dict[str, float]] = {
    "q4_0": 4.5,
    "q4_1": 5,
    "q5_0": 5.5,
    "q5_1": 6,
    "q8_0": 8.5,
    "q8_1": 9,
    "q2_k": 2.625,
    "q3_k": 3.4375,
    "q4_k": 4.5,
    "q5_k": 5.5,
    "q6_k": 6.5625,
    "q8_k": 9.125,
    "iq2_xxs": 2.0625,
    "iq2_xs": 2.3125,
    "iq2_s": 2.5625,
    "iq3_xxs": 3.0625,
    "iq3_s": 3.4375,
    "iq1_s": 1.5625,
    "iq1_m": 1.75,
    "iq4_nl": 4.5,
    "iq4_xs": 4.25,
    "tq1_0": 1.6875,
    "tq2_0": 2.0625,
    "q1_0": 1.125,
}

#: Mixtures of these that quantizers write, by file name: bits per weight of a whole model. Size of
#: the Llama 3 70B file x 8 / its 70.55e9 weights (XiongjieDai/GPU-Benchmarks-on-LLM-Inference
#: @00dd2bde, table of perplexities); other models differ by about 2 %.
GGUF_MIXES: Final[dict[str, float]] = {
    "q2_k_s": 2.67,
    "q3_k_s": 3.52,
    "q3_k_m": 3.88,
    "q3_k_l": 4.21,
    "q4_k_s": 4.58,
    "q4_k_m": 4.82,
    "q5_k_s": 5.52,
    "q5_k_m": 5.66,
}

#: Files of one format but for the output, which gets more bits.
GGUF_PLAIN: Final = frozenset({"q4_0", "q4_1", "q5_0", "q5_1"})

#: What GGUF files hold: only engines for language models read them.
GGUF_FORMATS: Final[frozenset[str]] = frozenset({*GGUF_BITS, *GGUF_MIXES})

#: Bits that one element occupies in memory. Block formats carry their scales: mxfp4 and mxfp8 one
#: 8-bit scale per 32 elements (OCP Microscaling Formats v1.0, section 5), nvfp4 one 8-bit scale per
#: 16 elements.
BITS: Final[dict[str, float]] = {
    "fp64": 64,
    "fp32": 32,
    "tf32": 32,  # a matrix-engine mode; stored as fp32
    "fp16": 16,
    "bf16": 16,
    "fp8": 8,
    "fp6": 6,
    "fp4": 4,
    "mxfp8": 8.25,
    "mxfp4": 4.25,
    "nvfp4": 4.5,
    "bfp8": 8.5,  # Tenstorrent block floating point: 16 mantissas of 8 bits share 8 exponent bits
    "int64": 64,
    "int32": 32,
    "int16": 16,
    "int8": 8,
    "uint8": 8,
    "int4": 4,
    "int2": 2,
    "bool": 8,
    "complex64": 64,
    "complex128": 128,
    **GGUF_BITS,
    **GGUF_MIXES,
}

#: Formats of blocks of weights that share a scale, as GGUF files hold them.
BLOCKS: Final[frozenset[str]] = GGUF_FORMATS | {"mxfp4"}

#: Whole numbers that weights are stored as.
WHOLE: Final[frozenset[str]] = frozenset({"int8", "uint8", "int4", "int2"})

#: Bytes of a stored weight relative to the number format of the run: int16 means 16-bit
#: activations with 8-bit weights (w8a16), the only such format that compilers of NPUs take.
STORED_WEIGHT: Final[dict[str, float]] = {"int16": 0.5}

#: Bits of weights and activations, as ``w4a16`` has them.
BITS_SCHEME: Final = re.compile(r"w(\d+)a(\d+)")

#: What compilers of NPUs call the formats that networks run in.
NETWORK_SCHEMES: Final[dict[str, str]] = {"w8a8": "int8", "w8a16": "int16"}

#: Formats of real numbers that a model's weights and activations can be cast between.
FLOATING: Final[frozenset[str]] = frozenset(
    {"fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "fp6", "fp4", "mxfp8", "mxfp4", "nvfp4", "bfp8"}
)

#: Formats that a user may ask a model to run in.
PRECISIONS: Final[tuple[str, ...]] = (
    "fp64",
    "fp32",
    "tf32",
    "fp16",
    "bf16",
    "fp8",
    "int8",
    "fp4",
    "int4",
)

_SPELLINGS: Final[dict[str, str]] = {
    "float64": "fp64",
    "double": "fp64",
    "f64": "fp64",
    "float32": "fp32",
    "float": "fp32",
    "single": "fp32",
    "f32": "fp32",
    "float16": "fp16",
    "half": "fp16",
    "f16": "fp16",
    "bfloat16": "bf16",
    "float8": "fp8",
    "float8_e4m3fn": "fp8",
    "float8_e5m2": "fp8",
    "float8_e4m3fnuz": "fp8",
    "float8_e5m2fnuz": "fp8",
    "f8": "fp8",
    "float4": "fp4",
    "float4_e2m1fn_x2": "fp4",
    "tensorfloat32": "tf32",
    "tf32x1": "tf32",
    "i8": "int8",
    "i4": "int4",
    "uint4": "int4",
    "i2": "int2",
    "uint2": "int2",
    "i32": "int32",
    "i64": "int64",
    "long": "int64",
    "int": "int32",
    "short": "int16",
    "uint16": "int16",
    "uint32": "int32",
    "uint64": "int64",
    # What Ollama and llama.cpp give where only the bits are named.
    "q2": "q2_k",
    "q3": "q3_k_m",
    "q4": "q4_k_m",
    "q5": "q5_k_m",
    "q6": "q6_k",
    "q8": "q8_0",
    "quint8": "uint8",
    "qint8": "int8",
    "qint32": "int32",
}


def parse_dtype(text: str) -> str:
    """Returns the canonical name of a number format as people and frameworks write it.

    Args:
        text: For example ``"fp16"``, ``"half"``, ``"torch.bfloat16"`` or ``"FLOAT32"``.

    Raises:
        UnknownNameError: No such format.
    """
    key = text.strip().lower().removeprefix("torch.").replace("-", "").replace(" ", "")
    key = _SPELLINGS.get(key, key)
    if key not in BITS:
        raise UnknownNameError("precision", text, PRECISIONS, "Use one of these with --precision.")
    return key


def names_parts(precision: str | None) -> bool:
    """Whether a format is more than one for the whole model: ``w4a16``, ``q4_k_m``."""
    if precision is None:
        return False
    try:
        return parse_dtype(precision) in GGUF_MIXES
    except UnknownNameError:
        return True


def of_weights(precision: str | None) -> str | None:
    """The format of the weights of a scheme: ``w4a16`` → ``int4``; None of anything else."""
    found = BITS_SCHEME.fullmatch((precision or "").strip().lower())
    return f"int{found[1]}" if found and found[1] in "48" else None


def in_groups(precision: str | None) -> str | None:
    """A format of 4 or 8 bits as MLX stores it: ``w4a16`` → ``w4a16,block=32,embeddings=int4,...``.

    A scale and an offset of 16 bits for 64 weights are as many bytes as a scale for 32. Anything
    else, and what names its parts itself, is as it was.
    """
    stored = of_weights(precision) or (precision or "").strip().lower()
    if stored not in ("int4", "int8"):
        return precision
    return f"w{stored[-1]}a16,block=32,embeddings={stored},head={stored}"


def single_format(precision: str | None) -> str | None:
    """A format of the whole model; None for formats part by part, which only engines know."""
    try:
        return None if precision is None else parse_dtype(precision)
    except UnknownNameError:
        return None


def stored_format(precision: str | None) -> str | None:
    """What the weights of a language model are stored in: ``w4a16,kv=fp8`` → int4, ``awq`` → awq.

    It decides which runtime people take, as checkpoints of some formats are read by few.
    """
    scheme = (precision or "").partition(",")[0].strip().lower()
    return of_weights(scheme) or scheme or None


#: Bits of weights in schemes that are no format of their own.
_SCHEME_BITS: Final[dict[str, float]] = {"awq": 4, "gptq": 4}


def bits_of_weights(precision: str) -> float | None:
    """Bits of a stored weight of a scheme, without its scales; None where it says nothing."""
    stored = stored_format(precision) or ""
    return _SCHEME_BITS.get(stored, BITS.get(_SPELLINGS.get(stored, stored)))


def width_bytes(dtype: str) -> float:
    """Returns the bytes that one element of ``dtype`` occupies, block scales included."""
    return BITS[dtype] / 8
