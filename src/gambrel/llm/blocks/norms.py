"""Norms and residual additions as inference engines run them."""

from __future__ import annotations

from gambrel.llm.blocks import code
from gambrel.llm.blocks.emit import Emitter, Index
from gambrel.llm.dims import times
from gambrel.workload import Dim


def norm(
    e: Emitter,
    x: Index,
    name: str,
    rows: Dim,
    width: int,
    kind: str,
    *,
    bias: bool = False,
    groups: int = 1,
    parameters: int | None = None,
) -> Index:
    """A norm of each row: one read, one write; as code, an RMS norm is several ops.

    Args:
        e: Where to write.
        x: The input.
        name: Of the module.
        rows: Rows of the input.
        width: Of a row.
        kind: ``"rms_norm"``, ``"layer_norm"`` or ``"layer_norm_free"`` (without weights).
        bias: Whether it adds one.
        groups: Parts of a row that are normalized apart, e.g. heads.
        parameters: Elements of its weight; None is ``width``.
    """
    if e.as_code and e.written_norms and kind == "layer_norm":
        with e.inside(name):
            return code.layer_norm(e, x, e.weight("weight", (width,)), rows, width)
    if e.as_code and kind == "rms_norm":
        with e.inside(name):
            length = width if parameters is None else parameters
            weight = e.weight("weight", (length,)) if length else None
            return code.rms_norm(e, x, weight, (rows, width, times(rows, groups)))
    out = e.activation(rows, width, e.tensors[x].dtype)
    _emit(e, (x,), (out,), name, rows, width, kind, bias, groups, parameters)
    return out


def add_norm(
    e: Emitter,
    x: Index,
    delta: Index,
    name: str,
    rows: Dim,
    width: int,
    kind: str,
    *,
    bias: bool = False,
    keep_sum: bool = True,
) -> tuple[Index, Index]:
    """The residual addition and the norm behind it as one kernel, as every engine fuses them.

    Returns:
        The sum and the normalized sum.
    """
    if e.as_code:
        total = add(e, x, delta, rows, width)
        out = norm(e, total, name, rows, width, kind, bias=bias)
        return (total if keep_sum else out), out
    total, out = e.activation(rows, width), e.activation(rows, width)
    outputs = (total, out) if keep_sum else (out,)
    _emit(e, (x, delta), outputs, name, rows, width, kind, bias, 1, None)
    return (total if keep_sum else out), out


def fused_norm(
    e: Emitter,
    x: Index,
    name: str,
    rows: Dim,
    width: int,
    *,
    groups: int,
    parameters: int,
    kind: str = "rms_norm",
) -> None:
    """A norm of heads that runs inside the kernel behind it: work and weights, no traffic of x."""
    del x
    _emit(e, (), (), name, rows, width, kind, False, groups, parameters)


def add(e: Emitter, a: Index, b: Index, rows: Dim, width: int) -> Index:
    """A residual addition on its own: two reads, one write."""
    return e.elementwise("add", (a, b), rows, width)


def _emit(
    e: Emitter,
    inputs: tuple[Index, ...],
    outputs: tuple[Index, ...],
    name: str,
    rows: Dim,
    width: int,
    kind: str,
    bias: bool,
    groups: int,
    parameters: int | None,
) -> None:
    affine = kind != "layer_norm_free" and parameters != 0
    with e.inside(name):
        weights: list[Index] = []
        if affine:
            weights.append(e.weight("weight", (width if parameters is None else parameters,)))
        if affine and bias:
            weights.append(e.weight("bias", (width if parameters is None else parameters,)))
        e.op(
            "normalization",
            (*inputs, *weights),
            outputs,
            name="add_norm" if len(inputs) == 2 else kind,
            elements=times(rows, width),
            groups=times(rows, groups),
            attrs={
                "function": "rms_norm" if kind == "rms_norm" else "layer_norm",
                "statistics": True,
                "affine": affine,
                "residual": len(inputs) == 2,
            },
        )
