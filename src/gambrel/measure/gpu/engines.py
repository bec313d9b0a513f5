"""Which engine of a GPU a library's product in a number format runs on."""

from __future__ import annotations

from typing import Final

from gambrel.measure.gpu.place import About

#: Compute capabilities whose matrix engine takes fp64, which cuBLAS then uses: A100, H100, B200.
#: Source: NVIDIA's CUDA C++ Programming Guide, table of arithmetic by compute capability.
_FP64_MATRIX: Final = frozenset({(8, 0), (9, 0), (10, 0)})
#: AMD's generations with matrix instructions: CDNA (MFMA) and RDNA from the third on (WMMA).
#: Source: the instruction set documents of these generations.
_AMD_FP64: Final = ("gfx90a", "gfx94", "gfx95")
_AMD_CDNA: Final = ("gfx908", *_AMD_FP64)
_AMD_MATRIX: Final = (*_AMD_CDNA, "gfx11", "gfx12")
_AMD_FP8: Final = ("gfx94", "gfx95", "gfx12")
#: This generation's fp8 has another bias; the next one has that of everybody else.
_AMD_OWN_FP8: Final = "gfx94"

#: In the order in which they are measured.
FORMATS: Final = ("fp64", "fp32", "tf32", "fp16", "bf16", "int8", "fp8")


def engines_of(seen: About) -> dict[str, tuple[str, str]]:
    """For each format the engine, or an empty text and the reason why there is none."""
    return _amd(seen.architecture) if seen.amd else _nvidia(seen)


def fp8_of(seen: About) -> str:
    """The name of torch's fp8 format that this GPU multiplies."""
    own = seen.amd and seen.architecture.startswith(_AMD_OWN_FP8)
    return "float8_e4m3fnuz" if own else "float8_e4m3fn"


def _nvidia(seen: About) -> dict[str, tuple[str, str]]:
    at = seen.capability
    lacks = f"compute capability {at[0]}.{at[1]} has no instructions for it"
    # The GTX 16 has the numbers of Turing and none of its matrix engines.
    tensor = at >= (7, 0) and "GTX 16" not in seen.name
    matrix: tuple[str, str] = ("matrix", "")
    vector: tuple[str, str] = ("vector", "")
    none: tuple[str, str] = ("", lacks)
    return {
        "fp64": matrix if at in _FP64_MATRIX else vector,
        "fp32": vector,
        "tf32": matrix if at >= (8, 0) else none,
        "fp16": matrix if tensor else vector,
        "bf16": matrix if at >= (8, 0) else none,
        "int8": matrix if tensor and at >= (7, 2) else vector,
        "fp8": matrix if at >= (8, 9) else none,
    }


def _amd(name: str) -> dict[str, tuple[str, str]]:
    none = ("", f"{name} has no instructions for it")
    narrow = "matrix" if name.startswith(_AMD_MATRIX) else "vector"
    return {
        "fp64": ("matrix" if name.startswith(_AMD_FP64) else "vector", ""),
        # The matrix engines of CDNA multiply fp32 at the rate of packed vector instructions.
        "fp32": ("vector", ""),
        "tf32": ("matrix", "") if name.startswith(_AMD_CDNA) else none,
        "fp16": (narrow, ""),
        "bf16": ("matrix", "") if narrow == "matrix" else none,
        "int8": (narrow, ""),
        "fp8": ("matrix", "") if name.startswith(_AMD_FP8) else none,
    }
