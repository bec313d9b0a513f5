"""FLOP and compulsory bytes of an op call, from the shapes that the trace recorded.

The cost is that of `gambrel.ops`, by the neutral description of `gambrel.capture.aten`. A trace
has no shapes of results; they are derived for the families where inputs tell, and an op whose
result is not known stays uncounted.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final

import gambrel.ops  # noqa: F401  (registers the formulas)
from gambrel.analysis.samples import MeasuredTraffic, MeasuredWork
from gambrel.capture.aten import TensorArg, describe, is_known
from gambrel.dtypes import parse_dtype
from gambrel.errors import GambrelError
from gambrel.ops.base import Cost, Engine, OpView, TensorView, cost, is_free, is_modelled
from gambrel.traces.kineto.columns import RecordedOp
from gambrel.traces.kineto.events import parse_list

Shape = tuple[int, ...]

_TYPES: Final = {
    "c10::Half": "fp16",
    "c10::BFloat16": "bf16",
    "c10::Float8_e4m3fn": "fp8",
    "c10::Float8_e5m2": "fp8",
    "signed char": "int8",
    "unsigned char": "uint8",
    "long int": "int64",
    "long": "int64",
    "c10::complex<float>": "complex64",
    "c10::complex<double>": "complex128",
}
#: Kinds whose cost follows from inputs and a derived result.
_KINDS: Final = frozenset(
    {"matmul", "convolution", "attention", "normalization", "softmax", "elementwise", "copy"}
    | {"elementwise_backward", "softmax_backward", "embedding", "optimizer", "cumulative"}
)
_MOST_ARGS: Final = 512
#: Kernels of PyTorch take up to 64 axes (TORCH_CHECK in TensorIterator), elements have 64 bits.
_MOST_AXES: Final = 64
_MOST_ELEMENTS: Final = 1 << 63
#: Larger counts are damage.
_LARGEST: Final = 1e30

Worked = tuple[tuple[MeasuredWork, ...], tuple[MeasuredTraffic, ...]]


def op_work(call: RecordedOp, *, tf32: bool = False) -> Worked | None:
    """The work and the compulsory traffic of one op call.

    Args:
        call: For example ``aten::addmm`` with its shapes, as recorded.
        tf32: Whether its kernel shows that fp32 matmuls ran in TF32.

    Returns:
        None when the op or its shapes are not known well enough.
    """
    if call[1] == b"null" or not call[0].startswith("aten::"):
        return None
    return _cached(*call, tf32)


@lru_cache(maxsize=65536)
def _cached(name: str, dims: bytes, types: bytes, concrete: bytes, tf32: bool) -> Worked | None:
    import msgspec

    op = name.replace("::", ".")
    if not is_known(op):
        return None
    parts = [parse_list(msgspec.Raw(raw)) for raw in (dims, types, concrete)]
    try:
        found = _cost(op, _arguments(*parts))
        return None if found is None else _measured(found, tf32)
    except (ValueError, OverflowError):  # sizes that are no numbers, shapes that no tensor has
        return None


def _arguments(dims: list[Any], types: list[Any], concrete: list[Any]) -> list[Any] | None:
    """The call's arguments: tensors with shapes, the rest as plain Python."""
    if len(dims) != len(types) or len(dims) > _MOST_ARGS:
        return None
    texts = [*concrete, *[""] * (len(dims) - len(concrete))]
    return [_argument(i, dims[i], str(types[i]), texts[i]) for i in range(len(dims))]


def _argument(i: int, shape: Any, kind: str, text: Any) -> Any:
    if kind in {"", "Scalar", "ScalarList"}:
        return _constant(text)
    if isinstance(shape, list) and shape and isinstance(shape[0], list):
        each = _dtype(kind) or "fp32"
        return [TensorArg(1000 * (i + 1) + j, _shape(s), each) for j, s in enumerate(shape)]
    dtype = _dtype(kind)
    if dtype is None or not isinstance(shape, list):
        return _constant(text)
    return TensorArg(i + 1, _shape(shape), dtype)


def _shape(values: Any) -> Shape:
    """A shape that a tensor can have.

    Raises:
        ValueError: More axes or elements than PyTorch allows, or a size that is no number.
    """
    usable = len(values) <= _MOST_AXES and all(isinstance(v, int) and v >= 0 for v in values)
    if not usable or math.prod(values) > _MOST_ELEMENTS:
        raise ValueError("no tensor has this shape")
    return tuple(values)


def _dtype(kind: str) -> str | None:
    if kind in _TYPES:
        return _TYPES[kind]
    try:
        return parse_dtype(kind)
    except GambrelError:
        return None


def _constant(text: Any) -> Any:
    try:
        return ast.literal_eval(str(text)[:200])
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None


def _cost(op: str, args: list[Any] | None) -> Cost | None:
    if args is None:
        return None
    result = _result(op.rpartition(".")[2].rstrip("_"), args)
    if result is None:
        return None
    found = describe(op, "default", args, {}, result)
    if found.kind not in _KINDS or is_free(found.kind) or not is_modelled(found.kind):
        return None
    view = OpView(
        kind=found.kind,
        inputs=tuple(map(_view, found.inputs)),
        outputs=tuple(map(_view, found.outputs)),
        sizes=found.sizes,
        attrs=found.attrs,
    )
    try:
        return cost(view)
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        return None


def _view(t: TensorArg) -> TensorView:
    return TensorView(shape=t.shape, dtype=t.dtype, elements=t.numel, storage=t.id)


def _measured(found: Cost, tf32: bool) -> Worked:
    work = tuple(
        MeasuredWork(
            work_class=engine.value,
            dtype="tf32" if tf32 and (engine, dtype) == (Engine.MATRIX, "fp32") else dtype,
            flops=int(flops),
            how="shapes of the op",
        )
        for (engine, dtype), flops in found.work.items()
        if engine is not Engine.SPECIAL
    )
    size = int(found.read_bytes) + int(found.write_bytes)
    if max(size, *(w.flops for w in work), 0) > _LARGEST:
        raise OverflowError("no call does so much")
    return work, (
        MeasuredTraffic(
            level="DRAM", traffic_bytes=size, how="compulsory bytes of the op's shapes"
        ),
    )


def _result(name: str, args: Sequence[Any]) -> TensorArg | None:
    """The result of an op, where its shape follows from the arguments."""
    tensors = [a for a in args if isinstance(a, TensorArg)]
    if not tensors:
        return None
    try:
        shape = _RESULTS.get(name, _broadcast)(args, tensors)
    except (IndexError, TypeError, ValueError, AttributeError, ZeroDivisionError):
        return None
    return None if shape is None else TensorArg(1 << 20, shape, tensors[0].dtype)


def _broadcast(_args: Sequence[Any], tensors: Sequence[TensorArg]) -> Shape | None:
    rank = max(len(t.shape) for t in tensors)
    shape = [1] * rank
    for t in tensors:
        for i, size in enumerate(t.shape, rank - len(t.shape)):
            if size != 1 and shape[i] not in (1, size):
                return tensors[0].shape
            shape[i] = size if size != 1 else shape[i]
    return tuple(shape)


def _product(first: int) -> Callable[[Sequence[Any], Sequence[TensorArg]], Shape]:
    def shape(args: Sequence[Any], _tensors: Sequence[TensorArg]) -> Shape:
        a, b = args[first].shape, args[first + 1].shape
        if len(b) == 1:
            return tuple(a[:-1])
        batch = a[:-2] if len(a) >= len(b) else b[:-2]
        return (*batch, *((a[-2],) if len(a) > 1 else ()), b[-1])

    return shape


def _linear(args: Sequence[Any], _tensors: Sequence[TensorArg]) -> Shape:
    return (*args[0].shape[:-1], args[1].shape[0])


def _conv(
    stride: int, padding: int, dilation: int, transposed: int | None = None
) -> Callable[[Sequence[Any], Sequence[TensorArg]], Shape | None]:
    def shape(args: Sequence[Any], _tensors: Sequence[TensorArg]) -> Shape | None:
        if transposed is not None and args[transposed]:
            return None
        x, w = args[0].shape, args[1].shape
        rank = len(w) - 2
        steps, pads, gaps = (_per_axis(args[i], rank) for i in (stride, padding, dilation))
        sides = tuple(
            (x[2 + i] + 2 * pads[i] - gaps[i] * (w[2 + i] - 1) - 1) // steps[i] + 1
            for i in range(rank)
        )
        return (x[0], w[0], *sides) if min(sides) > 0 else None

    return shape


def _per_axis(value: Any, rank: int) -> Sequence[int]:
    found = [value] * rank if isinstance(value, int) else list(value)
    return found * rank if len(found) == 1 else found


def _attention(args: Sequence[Any], _tensors: Sequence[TensorArg]) -> Shape:
    return (*args[0].shape[:-1], args[2].shape[-1])


def _embedding(args: Sequence[Any], _tensors: Sequence[TensorArg]) -> Shape:
    return (*args[1].shape, args[0].shape[-1])


def _first(_args: Sequence[Any], tensors: Sequence[TensorArg]) -> Shape:
    return tensors[0].shape


_LIKE_FIRST: Final = (
    *("layer_norm", "native_layer_norm", "native_batch_norm", "cudnn_batch_norm", "batch_norm"),
    *("native_group_norm", "group_norm", "rms_norm", "_fused_rms_norm", "cumsum"),
    *("softmax", "_softmax", "log_softmax", "_log_softmax"),
)
_RESULTS: Final[dict[str, Callable[[Sequence[Any], Sequence[TensorArg]], Shape | None]]] = {
    **dict.fromkeys(("mm", "bmm", "matmul", "mv", "_int_mm"), _product(0)),
    **dict.fromkeys(("addmm", "baddbmm", "_addmm_activation", "addmv"), _product(1)),
    "linear": _linear,
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), _conv(3, 4, 5)),
    **dict.fromkeys(("convolution", "_convolution"), _conv(3, 4, 5, 6)),
    "cudnn_convolution": _conv(3, 2, 4),
    **dict.fromkeys(("mkldnn_convolution", "miopen_convolution"), _conv(4, 3, 5)),
    **dict.fromkeys(
        (
            "scaled_dot_product_attention",
            "_scaled_dot_product_flash_attention",
            "_scaled_dot_product_efficient_attention",
            "_scaled_dot_product_cudnn_attention",
            "_scaled_dot_product_flash_attention_for_cpu",
        ),
        _attention,
    ),
    "embedding": _embedding,
    **dict.fromkeys(_LIKE_FIRST, _first),
}
