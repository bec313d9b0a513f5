"""What a ``quantization_config`` means for the number formats of the parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from gambrel.llm.config.fields import Fields
from gambrel.llm.spec import Quantization

_Answer = tuple[str, str]


def quantization(f: Fields) -> Quantization | None:
    """The quantization of a checkpoint; None when the file names none.

    Raises:
        CaptureError: Fields of a wrong type.
    """
    part = f.part("quantization_config", "compression_config")
    if part is None:
        return None
    method = part.text("quant_method", default="")
    reader = _METHODS.get(method.lower())
    if reader is None:
        note = (
            f"quantization {method!r} is not known: weights are counted in the checkpoint's "
            "floating format; choose another with --precision."
        )
        return Quantization(method=method, precision=f.dtype() or "bf16", note=note)
    precision, note = reader(part)
    return Quantization(method=method, precision=precision, note=note)


def _fp8(q: Fields) -> _Answer:
    block = q.wholes("weight_block_size")
    if not block:
        return "fp8", ""
    if not 1 <= block[0] <= 1 << 20:
        q.refuse(("weight_block_size",), list(block), "positive sizes such as [128, 128]")
    return f"fp8_block,block={block[0]}", ""


def _grouped(q: Fields) -> _Answer:
    bits = q.whole("bits", "w_bit", most=16, default=4)
    size = q.whole("group_size", "q_group_size", least=-1, default=128)
    return _weights_only(bits, size)


def _weights_only(bits: int, group: int) -> _Answer:
    known = {4: "w4a16", 8: "w8a16", 16: "w16a16"}
    if bits not in known:
        near = 4 if bits < 4 else 8
        return known[near], f"weights of {bits} bits are counted as {near} bits."
    scheme = known[bits]
    return (f"{scheme},block={group}" if group > 0 and bits < 16 else scheme), ""


def _bitsandbytes(q: Fields) -> _Answer:
    if q.flag("load_in_4bit", default=False):
        return "w4a16,block=64", ""
    return "w8a16", ""


def _mxfp4(_: Fields) -> _Answer:
    # The experts alone: attention, router, embedding and head are listed as not converted.
    return "bf16,experts=mxfp4", ""


def _modelopt(q: Fields) -> _Answer:
    algorithm = q.text("quant_algo", default="FP8").upper()
    schemes = {"FP8": "fp8", "NVFP4": "nvfp4", "MXFP8": "mxfp8", "W4A16_AWQ": "w4a16"}
    found = schemes.get(algorithm)
    if found is None:
        return "fp8", f"quantization {algorithm} is counted as fp8."
    return found, ""


def _compressed(q: Fields) -> _Answer:
    groups = q.part("config_groups")
    first = next(iter(groups.given), None) if groups is not None else None
    group = groups.part(first) if groups is not None and first else None
    if group is None:
        return "fp8", "the compressed-tensors file names no group: counted as fp8."
    weights, acts = group.part("weights"), group.part("input_activations")
    bits = weights.whole("num_bits", most=16, default=8) if weights else 8
    kind = weights.text("type", default="int") if weights else "int"
    if kind == "float":
        return ("nvfp4" if bits == 4 else "fp8") if acts else f"fp8,compute={'bf16'}", ""
    if acts is None:
        size = weights.whole("group_size", least=-1, default=-1) if weights else -1
        return _weights_only(bits, size)
    return ("w4a8" if bits == 4 else "w8a8"), ""


_METHODS: Final[dict[str, Callable[[Fields], _Answer]]] = {
    "fp8": _fp8,
    "fbgemm_fp8": lambda _: ("fp8", ""),
    "finegrained_fp8": _fp8,
    "gptq": _grouped,
    "awq": _grouped,
    "auto-round": _grouped,
    "bitsandbytes": _bitsandbytes,
    "mxfp4": _mxfp4,
    "modelopt": _modelopt,
    "modelopt_fp4": lambda _: ("nvfp4", ""),
    "compressed-tensors": _compressed,
}
