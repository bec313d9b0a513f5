"""An op by its name and sizes, ``matmul:m=4096,n=4096,k=4096,bf16``, as a workload of one op."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from gambrel.closest import closest
from gambrel.dtypes import parse_dtype
from gambrel.errors import InputError, UnknownNameError, cut
from gambrel.ops.elementwise import FUNCTIONS
from gambrel.ops.reduction import REDUCTIONS
from gambrel.workload import Attributes, Op, Role, Sizes, Tensor, Workload

_SPEC: Final = re.compile(r"^(?P<kind>[a-z][a-z0-9_]*):(?P<rest>[\w.,=x-]*=[\w.,=x-]*)$")
#: Names of sizes that mean the same: those of docs/ops.md, and those of single ops.
_SAME: Final = {"b": "batch", "q_len": "q", "kv_len": "kv", "head_dim": "d", "v_head_dim": "dv"}
_ALSO: Final = {**_SAME, **{short: long for long, short in _SAME.items()}}
#: No side of a tensor is larger.
_MOST: Final = 10**9


class _Given(msgspec.Struct, frozen=True, kw_only=True):
    """What stands behind the colon."""

    text: str
    sizes: Mapping[str, int]
    dtype: str
    asked: bool
    flags: frozenset[str]


class _Builder(msgspec.Struct, frozen=True, kw_only=True):
    """How an op is made.

    Attributes:
        build: From what was given to the op's parts.
        needs: Sizes that must be given.
        takes: Sizes that may be given.
        flags: Words that may be given.
    """

    build: Callable[[_Given], _Made]
    needs: tuple[str, ...]
    takes: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()


def is_named_op(text: str) -> bool:
    """Whether a text names an op with sizes rather than code, a file or a model."""
    return _SPEC.match(text.strip()) is not None


def named_op(text: str) -> Workload:
    """The workload of one named op.

    Args:
        text: ``KIND:NAME=SIZE,...,FORMAT``; the format is fp32 where none is given.

    Raises:
        UnknownNameError: No such kind, size or format.
        InputError: A size that is missing or no whole number.
    """
    found = _SPEC.match(text.strip())
    if found is None:
        raise InputError(f"{cut(text)!r}: write KIND:SIZES,FORMAT, e.g. {_EXAMPLE}.")
    kind = found["kind"]
    if kind not in _BUILDERS:
        near = closest(kind, _BUILDERS, 5, 50)
        some = "matmul, conv, attention, softmax, layer_norm, ssd_scan, functions such as gelu, sum"
        raise UnknownNameError("op", kind, near, f"Named with sizes are {some}: {_EXAMPLE}.")
    builder = _BUILDERS[kind]
    given = _read(text, found["rest"], builder)
    op, tensors = builder.build(given)
    outputs = tuple(op.outputs)
    return Workload(
        name=text.strip(),
        dtype=given.dtype,
        asked_dtype=given.asked,
        tensors=tuple(tensors),
        ops=(op,),
        outputs=outputs,
        origin="named op",
    )


_EXAMPLE: Final = "matmul:m=4096,n=4096,k=4096,bf16"


def _read(text: str, rest: str, builder: _Builder) -> _Given:
    sizes: dict[str, int] = {}
    flags: set[str] = set()
    dtype = ""
    known = (*builder.needs, *builder.takes)
    for part in filter(None, rest.split(",")):
        name, equals, value = part.partition("=")
        if equals:
            name = name if name in known else _ALSO.get(name, name)
            if name not in known:
                raise UnknownNameError(f"size of {cut(text)}", name, known)
            if name in sizes:
                raise InputError(f"{cut(text)}: {name} is given twice.")
            if not (value.isascii() and value.isdigit() and 0 < int(value[:12]) <= _MOST):
                raise InputError(
                    f"{cut(text)}: {name}={cut(value)} is not a whole number above 0, "
                    f"{_MOST:,} at most."
                )
            sizes[name] = int(value)
        elif part in builder.flags:
            flags.add(part)
        else:
            dtype = parse_dtype(part)
    missing = [name for name in builder.needs if name not in sizes]
    if missing:
        example = ",".join(f"{name}=64" for name in builder.needs)
        kind = text.partition(":")[0]
        raise InputError(f"{cut(text)} needs {', '.join(missing)} as well, e.g. {kind}:{example}.")
    asked = bool(dtype)
    return _Given(
        text=text, sizes=sizes, dtype=dtype or "fp32", asked=asked, flags=frozenset(flags)
    )


_Made: TypeAlias = tuple[Op, list[Tensor]]
_Operand: TypeAlias = tuple[tuple[int, ...], Role]


def _op(
    given: _Given,
    kind: str,
    operands: Sequence[_Operand],
    out: tuple[int, ...],
    sizes: Sizes,
    attrs: Attributes | None = None,
) -> _Made:
    """An op that reads its operands and writes one result."""
    last = len(operands)
    attrs = attrs or {}
    op = Op(
        kind=kind,
        inputs=tuple(range(last)),
        outputs=(last,),
        sizes=sizes,
        attrs=attrs,
        name=str(attrs.get("function", kind)),
    )
    tensors = [
        Tensor(shape=shape, dtype=given.dtype, storage=i, role=role)
        for i, (shape, role) in enumerate((*operands, (out, Role.OUTPUT)))
    ]
    return op, tensors


def _matmul(given: _Given) -> _Made:
    m, n, k = (given.sizes[name] for name in "mnk")
    b = given.sizes.get("b", 1)
    bias = "bias" in given.flags
    lead = (b,) if b > 1 else ()
    operands: list[_Operand] = [
        ((*lead, m, k), Role.INPUT),
        ((*lead, k, n), Role.INPUT if b > 1 else Role.WEIGHT),
    ]
    operands += [((n,), Role.WEIGHT)] if bias else []
    sizes: Sizes = {"b": b, "m": m, "n": n, "k": k}
    return _op(given, "matmul", operands, (*lead, m, n), sizes, {"bias": True} if bias else {})


def _conv(given: _Given) -> _Made:
    s = given.sizes
    high, wide = s.get("r", s["kernel"]), s.get("s", s["kernel"])
    stride, groups, pad = s.get("stride", 1), s.get("groups", 1), s.get("pad", 0)
    if s["c"] % groups or s["k"] % groups:
        raise InputError(f"{cut(given.text)}: groups must divide c and k.")
    out = tuple(
        (side + 2 * pad - taps) // stride + 1 for side, taps in ((s["h"], high), (s["w"], wide))
    )
    if min(out) < 1:
        raise InputError(f"{cut(given.text)}: the kernel is larger than the padded image.")
    image = ((s["n"], s["c"], s["h"], s["w"]), Role.INPUT)
    weight = ((s["k"], s["c"] // groups, high, wide), Role.WEIGHT)
    sizes: Sizes = {
        "batch": s["n"],
        "out_channels": s["k"],
        "in_channels": s["c"],
        "groups": groups,
        "kernel": (high, wide),
        "spatial": out,
    }
    return _op(given, "convolution", (image, weight), (s["n"], s["k"], *out), sizes)


def _attention(given: _Given) -> _Made:
    s = given.sizes
    batch, heads, q, d = s.get("batch", 1), s["heads"], s["q"], s["d"]
    kv_heads, kv, dv = s.get("kv_heads", heads), s.get("kv", q), s.get("dv", d)
    shapes = ((batch, heads, q, d), (batch, kv_heads, kv, d), (batch, kv_heads, kv, dv))
    causal: Attributes = {"causal": True, "causal_alignment": "lower_right"}
    sizes: Sizes = {
        "batch": batch,
        "heads": heads,
        "kv_heads": kv_heads,
        "q_len": q,
        "kv_len": kv,
        "head_dim": d,
        "v_head_dim": dv,
    }
    operands = [(shape, Role.INPUT) for shape in shapes]
    attrs = causal if "causal" in given.flags else {}
    return _op(given, "attention", operands, (batch, heads, q, dv), sizes, attrs)


def _rows(kind: str, function: str) -> Callable[[_Given], _Made]:
    """A softmax or a normalization over rows."""

    def build(given: _Given) -> _Made:
        rows, cols = shape = given.sizes["rows"], given.sizes["cols"]
        affine = kind == "normalization"
        operands = [(shape, Role.INPUT), *([((cols,), Role.WEIGHT)] if affine else [])]
        sizes: Sizes = {"elements": rows * cols, "groups" if affine else "rows": rows}
        attrs: Attributes = {"function": function, **({"affine": True} if affine else {})}
        return _op(given, kind, operands, shape, sizes, attrs)

    return build


#: Element-wise functions of two operands.
_BINARY: Final = frozenset({"add", "sub", "mul", "div", "maximum", "minimum", "pow"})


def _elementwise(function: str) -> Callable[[_Given], _Made]:
    def build(given: _Given) -> _Made:
        shape = (given.sizes["n"],)
        operands = [(shape, Role.INPUT)] * (2 if function in _BINARY else 1)
        sizes: Sizes = {"elements": shape[0]}
        return _op(given, "elementwise", operands, shape, sizes, {"function": function})

    return build


def _reduction(function: str) -> Callable[[_Given], _Made]:
    def build(given: _Given) -> _Made:
        rows, cols = given.sizes.get("rows", 1), given.sizes["cols"]
        operands = [((rows, cols), Role.INPUT)]
        sizes: Sizes = {"elements": rows * cols, "outputs": rows}
        return _op(given, "reduction", operands, (rows,), sizes, {"function": function})

    return build


def _copy(given: _Given) -> _Made:
    shape = (given.sizes["n"],)
    return _op(given, "copy", [(shape, Role.INPUT)], shape, {})


def _selective(given: _Given) -> _Made:
    s = given.sizes
    batch, seq, channels, state = s.get("batch", 1), s["seq"], s["channels"], s["state"]
    shapes = ((batch, seq, channels),) * 2, ((batch, seq, 2 * state),)
    return _scan("selective_scan", given, shapes, (channels, state), (batch, seq, channels))


def _ssd(given: _Given) -> _Made:
    s = given.sizes
    given = msgspec.structs.replace(given, sizes={"groups": 1, "chunk": 256, **s})
    batch, seq, heads, groups = s.get("batch", 1), s["seq"], s["heads"], given.sizes["groups"]
    width = heads * s["head_dim"]
    shapes = ((batch, seq, width + 2 * groups * s["state"]), (batch, seq, heads)), ()
    return _scan("ssd_scan", given, shapes, (heads,), (batch, seq, width))


def _delta(kind: str, inputs: int) -> Callable[[_Given], _Made]:
    """Keys, values and what they are told by: rates a head, or ``inputs`` keys a head."""

    def build(given: _Given) -> _Made:
        s = given.sizes
        batch, seq, heads = s.get("batch", 1), s["seq"], s["heads"]
        keys, values = heads * s["key_dim"], heads * s["value_dim"]
        shapes = ((batch, seq, inputs * keys + values), (batch, seq, 2 * heads)), ()
        return _scan(kind, given, shapes, (heads,), (batch, seq, values))

    return build


def _scan(
    kind: str,
    given: _Given,
    shapes: tuple[Sequence[tuple[int, ...]], Sequence[tuple[int, ...]]],
    weight: tuple[int, ...],
    out: tuple[int, ...],
) -> _Made:
    """A scan with one weight between its inputs, which begins with no state."""
    first, then = ([(shape, Role.INPUT) for shape in each] for each in shapes)
    operands: list[_Operand] = [*first, (weight, Role.WEIGHT), *then]
    return _op(given, kind, operands, out, {"batch": 1, **given.sizes})


_BY_ROW: Final = ("rows", "cols")
_BY_KEY: Final = ("seq", "heads", "key_dim", "value_dim")
_BUILDERS: Final[dict[str, _Builder]] = {
    "matmul": _Builder(build=_matmul, needs=("m", "n", "k"), takes=("b",), flags=("bias",)),
    "conv": _Builder(
        build=_conv,
        needs=("n", "c", "h", "w", "k", "kernel"),
        takes=("r", "s", "stride", "pad", "groups"),
    ),
    "attention": _Builder(
        build=_attention,
        needs=("heads", "q", "d"),
        takes=("batch", "kv_heads", "kv", "dv"),
        flags=("causal",),
    ),
    "softmax": _Builder(build=_rows("softmax", "softmax"), needs=_BY_ROW),
    "log_softmax": _Builder(build=_rows("softmax", "log_softmax"), needs=_BY_ROW),
    "layer_norm": _Builder(build=_rows("normalization", "layer_norm"), needs=_BY_ROW),
    "rms_norm": _Builder(build=_rows("normalization", "rms_norm"), needs=_BY_ROW),
    "copy": _Builder(build=_copy, needs=("n",)),
    "selective_scan": _Builder(
        build=_selective, needs=("seq", "channels", "state"), takes=("batch",)
    ),
    "ssd_scan": _Builder(
        build=_ssd, needs=("seq", "heads", "head_dim", "state"), takes=("batch", "groups", "chunk")
    ),
    "delta_scan": _Builder(build=_delta("delta_scan", 2), needs=_BY_KEY, takes=("batch",)),
    "wkv7_scan": _Builder(build=_delta("wkv7_scan", 5), needs=_BY_KEY, takes=("batch",)),
    **{f: _Builder(build=_elementwise(f), needs=("n",)) for f in FUNCTIONS},
    **{
        f: _Builder(build=_reduction(f), needs=("cols",), takes=("rows",))
        for f in REDUCTIONS
        if f not in FUNCTIONS
    },
}
