"""What a ``quantization_config`` means for the number formats of the parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from gambrel.llm.config.fields import Fields
from gambrel.llm.spec import Quantization

_Answer = tuple[str, str]


def quantization(f: Fields) -> Quantization | None:
    """The quantization of a checkpoint; None when the file names none.

    Raises:
        CaptureError: Fields of a wrong type.
    """
    own = ("quantization",) if isinstance(f.raw("quantization"), Mapping) else ()  # MLX's name
    part = f.part("quantization_config", "compression_config", *own)
    if part is None:
        return None
    method = part.text("quant_method", default="mlx" if part.has("bits", "mode") else "")
    reader = _METHODS.get(method.lower())
    if reader is None:
        note = (
            f"quantization {method!r} is not known: weights are counted in the checkpoint's "
            "floating format; choose another with --precision."
        )
        return Quantization(method=method, precision=f.dtype() or "bf16", note=note)
    precision, note = reader(part)
    if _is_two_of_four(part):
        note = f"{note} {_PRUNED}".strip()
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


def _mlx(q: Fields) -> _Answer:
    """MLX packs the table and the head as well; a group has a scale and an offset of 16 bits."""
    mode = q.text("mode", default="affine")
    if mode in ("mxfp4", "mxfp8", "nvfp4"):
        return f"{mode},compute=bf16,embeddings={mode},head={mode}", ""
    scheme, note = _weights_only(q.whole("bits", most=8, default=4), 0)
    part = f"int{scheme[1]}"
    block = max(q.whole("group_size", default=64) // 2, 1)
    return f"{scheme},block={block},embeddings={part},head={part}", note


def _mxfp4(_: Fields) -> _Answer:
    # The experts alone: attention, router, embedding and head are listed as not converted.
    return "bf16,experts=mxfp4", ""


#: Algorithms of ModelOpt and TensorRT-LLM (its ``QuantAlgo``) → (scheme, has a group size).
_MODELOPT: Final[dict[str, tuple[str, bool]]] = {
    "FP8": ("fp8", False),
    "FP8_PER_CHANNEL_PER_TOKEN": ("fp8", False),
    "FP8_BLOCK_SCALES": ("fp8_block,block=128", False),
    "NVFP4": ("nvfp4", False),
    "MXFP8": ("mxfp8", False),
    "W8A16": ("w8a16", False),
    "W8A16_GPTQ": ("w8a16", True),
    "W4A16": ("w4a16", False),
    "W4A16_AWQ": ("w4a16", True),
    "W4A16_GPTQ": ("w4a16", True),
}


def _modelopt(q: Fields) -> _Answer:
    algorithm = q.text("quant_algo", default="").upper()
    cache = {"FP8": "fp8", "INT8": "int8", "NVFP4": "nvfp4"}.get(
        q.text("kv_cache_quant_algo", default="").upper()
    )
    held = f",kv={cache}" if cache else ""
    if not algorithm:
        return (f"{q.text('dtype', default='bf16')}{held}" if cache else "fp8"), ""
    if algorithm.startswith("W8A8_SQ"):  # SmoothQuant: per tensor, channel or token
        return f"w8a8{held}", ""
    scheme, grouped = _MODELOPT.get(algorithm, ("", False))
    if not scheme:
        return f"fp8{held}", f"quantization {algorithm} is counted as fp8."
    size = q.whole("group_size", least=-1, default=128) if grouped else 0
    return f"{scheme}{f',block={size}' if size > 0 else ''}{held}", ""


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


#: torchao's schemes, lower case without underscores and "config": (precision, has a group size).
#: Names of pytorch/ao, torchao/quantization/quant_api.py, from memory.
_TORCHAO: Final[dict[str, tuple[str, bool]]] = {
    "int4weightonly": ("w4a16", True),
    "int8weightonly": ("w8a16", False),
    "int8dynamicactivationint8weight": ("w8a8", False),
    "int8dynamicactivationint4weight": ("w4a8", False),
    "float8weightonly": ("fp8,compute=bf16", False),
    "float8dynamicactivationfloat8weight": ("fp8", False),
}


def _torchao(q: Fields) -> _Answer:
    """A name with arguments beside it, or the newer record of a configuration's class."""
    arguments: Fields | None = q.part("quant_type_kwargs")
    if isinstance(q.raw("quant_type"), str):
        name = q.text("quant_type")
    else:
        record = q.part("quant_type")
        record = record.part("default") if record is not None else None
        name = record.text("_type") if record is not None else ""
        arguments = record.part("_data") if record is not None else None
    found = _TORCHAO.get(name.lower().replace("_", "").removesuffix("config"))
    if found is None:
        return "w8a16", f"torchao's {name!r} is not known: counted as weights of 8 bits."
    scheme, grouped = found
    size = arguments.whole("group_size", least=-1, default=128) if arguments is not None else 128
    return (f"{scheme},block={size}" if grouped and size > 0 else scheme), ""


def _hqq(q: Fields) -> _Answer:
    part = q.part("quant_config")
    part = part.part("weight_quant_params") if part is not None else None
    if part is None:
        return "w4a16,block=64", "the configuration of hqq names no widths: counted as 4 bits."
    bits = part.whole("nbits", most=16, default=4)
    return _weights_only(bits, part.whole("group_size", least=-1, default=64))


def _quanto(q: Fields) -> _Answer:
    schemes = {"int8": "w8a16", "int4": "w4a16", "float8": "fp8,compute=bf16"}
    name = q.text("weights", default="int8")
    if name not in schemes:
        return "w4a16", f"weights of {name} are counted as 4 bits."
    return schemes[name], ""


def _is_two_of_four(part: Fields) -> bool:
    """Whether a checkpoint says that two of four neighbouring weights are zero."""
    sparse = part.part("sparsity_config")
    return sparse is not None and sparse.text("sparsity_structure") == "2:4"


_PRUNED: Final = (
    "weights are pruned 2:4: two of four neighbours are zero; add --sparse to hold the matrix work "
    "against the device's peaks for that structure."
)


_METHODS: Final[dict[str, Callable[[Fields], _Answer]]] = {
    "fp8": _fp8,
    "fbgemm_fp8": lambda _: ("fp8", ""),
    "finegrained_fp8": _fp8,
    "gptq": _grouped,
    "awq": _grouped,
    "auto-round": _grouped,
    "bitsandbytes": _bitsandbytes,
    "torchao": _torchao,
    "hqq": _hqq,
    "quanto": _quanto,
    "eetq": lambda _: ("w8a16", ""),
    "mlx": _mlx,
    "mxfp4": _mxfp4,
    "modelopt": _modelopt,
    "modelopt_fp4": lambda _: ("nvfp4", ""),
    "compressed-tensors": _compressed,
}
