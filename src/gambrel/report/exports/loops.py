"""Convolutions and GEMMs as loop nests, for explorers of accelerators.

Timeloop: problem specification 0.4, after the classes of its front end
(github.com/Accelergy-Project/timeloopfe, v4/problem.py, 2026-11); the program was not run.
ZigZag: workload in YAML, https://kuleuven-micas.github.io/zigzag/workload.html.
Strides are those that the sizes of input and output give; a workload has no others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from gambrel.advise.design.layers import strides
from gambrel.analysis.evaluate import Evaluator
from gambrel.analysis.precision import casts_of
from gambrel.analysis.result import Analysis
from gambrel.dtypes import width_bytes
from gambrel.errors import InputError
from gambrel.ops import Conventions, OpView
from gambrel.report.exports.schedule import paired, workload_of


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopNest:
    """A convolution or GEMM.

    Attributes:
        kind: ``conv`` or ``gemm``.
        sizes: N images, C input channels and K output channels of a group, P x Q results, R x S
            taps, G groups; a GEMM has N rows, C of the sum, K columns and G products.
        strides: Along P and Q.
        bits: Of weight, input and output.
        name: Of the op.
        executions: How often it runs.
    """

    kind: str
    sizes: dict[str, int]
    strides: tuple[int, int] = (1, 1)
    bits: tuple[int, int, int] = (16, 16, 16)
    name: str = ""
    executions: int = 1

    @property
    def key(self) -> tuple[object, ...]:
        """What is the same for equal nests."""
        return (self.kind, *self.sizes.values(), *self.strides, *self.bits)


def nests(analysis: Analysis) -> list[LoopNest]:
    """All convolutions and GEMMs in order; attention counts as its two products.

    Raises:
        InputError: There is none.
    """
    workload = workload_of(analysis)
    casts = casts_of(workload, analysis.model.precision)
    sizes = Evaluator(workload, analysis.model.symbols, casts, Conventions(**analysis.conventions))
    found: list[LoopNest] = []
    for op, row in paired(analysis):
        for nest in _nests_of(sizes.op(op)):
            found.append(replace(nest, name=row.name, executions=op.repeat))
    if not found:
        raise InputError(f"{analysis.model.name} has no convolution and no GEMM to export.")
    return found


def _nests_of(view: OpView) -> Iterator[LoopNest]:
    if view.kind == "convolution" and len(view.size("kernel")) <= 2:
        yield _convolution(view)
    elif view.kind in ("matmul", "grouped_matmul"):
        grouped = view.kind == "grouped_matmul"
        rows = view.size("rows") if grouped else view.size("m")
        groups = 1 if grouped else view.size("b", 1)
        yield _gemm(view, groups, rows, view.size("k"), view.size("n"))
    elif view.kind == "attention":
        heads = view.size("batch") * view.size("heads")
        rows, keys = view.size("q_len"), view.size("kv_len")
        width = view.size("head_dim")
        yield _gemm(view, heads, rows, width, keys)
        yield _gemm(view, heads, rows, keys, view.size("v_head_dim", width))


def _gemm(view: OpView, groups: int, n: int, c: int, k: int) -> LoopNest:
    sizes = {"G": groups, "N": n, "C": c, "K": k}
    return LoopNest(kind="gemm", sizes={s: int(v) for s, v in sizes.items()}, bits=_bits(view))


def _convolution(view: OpView) -> LoopNest:
    kernel, spatial = _two(view.size("kernel")), _two(view.size("spatial"))
    groups = int(view.size("groups", 1))
    sizes = {
        "G": groups,
        "N": int(view.size("batch")),
        "C": int(view.size("in_channels")) // groups,
        "K": int(view.size("out_channels")) // groups,
        "P": spatial[0],
        "Q": spatial[1],
        "R": kernel[0],
        "S": kernel[1],
    }
    return LoopNest(kind="conv", sizes=sizes, strides=strides(view, spatial), bits=_bits(view))


def _two(sizes: tuple[int, ...]) -> tuple[int, int]:
    padded = (1, 1, *(int(n) for n in sizes))
    return padded[-2], padded[-1]


def _bits(view: OpView) -> tuple[int, int, int]:
    """Of weight, input and output."""
    inputs = [t.dtype for t in view.inputs[:2]]
    x, weight = (*inputs, *inputs[:1])[:2] if inputs else ("fp16", "fp16")
    out = view.outputs[0].dtype if view.outputs else x
    widths = [max(1, round(8 * width_bytes(dtype))) for dtype in (weight, x, out)]
    return widths[0], widths[1], widths[2]


_TIMELOOP_CONV = """  shape:
    name: conv
    dimensions: [G, N, C, K, P, Q, R, S]
    coefficients:
    - {name: Pstride, default: 1}
    - {name: Qstride, default: 1}
    data_spaces:
    - name: Weights
      projection: [[[G]], [[K]], [[C]], [[R]], [[S]]]
    - name: Inputs
      projection: [[[G]], [[N]], [[C]], [[R], [P, Pstride]], [[S], [Q, Qstride]]]
    - name: Outputs
      projection: [[[G]], [[N]], [[K]], [[P]], [[Q]]]
      read_write: true
"""
_TIMELOOP_GEMM = """  shape:
    name: gemm
    dimensions: [G, N, C, K]
    data_spaces:
    - name: Weights
      projection: [[[G]], [[C]], [[K]]]
    - name: Inputs
      projection: [[[G]], [[N]], [[C]]]
    - name: Outputs
      projection: [[[G]], [[N]], [[K]]]
      read_write: true
"""


def timeloop_problems(analysis: Analysis) -> bytes:
    """One document for each distinct nest, with how often it runs."""
    counted: dict[tuple[object, ...], int] = {}
    first: dict[tuple[object, ...], LoopNest] = {}
    for nest in nests(analysis):
        counted[nest.key] = counted.get(nest.key, 0) + nest.executions
        first.setdefault(nest.key, nest)
    return "".join(_problem(nest, counted[key]) for key, nest in first.items()).encode()


def _problem(nest: LoopNest, executions: int) -> str:
    sizes = dict(nest.sizes)
    if nest.kind == "conv":
        sizes |= {"Pstride": nest.strides[0], "Qstride": nest.strides[1]}
    instance = ", ".join(f"{name}: {n}" for name, n in sizes.items())
    shape = _TIMELOOP_CONV if nest.kind == "conv" else _TIMELOOP_GEMM
    return (
        f"---\n# {_line(nest.name)}: {executions} executions\n"
        f'problem:\n  version: "0.4"\n{shape}  instance: {{{instance}}}\n'
    )


def zigzag_workload(analysis: Analysis) -> bytes:
    """All nests in order; one that runs several times says so in a comment."""
    return "\n".join(_layer(i, nest) for i, nest in enumerate(nests(analysis))).encode()


def _layer(number: int, nest: LoopNest) -> str:
    weight, x, out = nest.bits
    if nest.kind == "conv":
        equation = "O[b][g][k][oy][ox]+=W[g][k][c][fy][fx]*I[b][g][c][iy][ix]"
        relations = f"[ix={nest.strides[1]}*ox+1*fx, iy={nest.strides[0]}*oy+1*fy]"
        dims = {"B": "N", "G": "G", "K": "K", "C": "C", "OY": "P", "OX": "Q", "FY": "R", "FX": "S"}
    else:
        equation, relations = "O[g][b][k]+=I[g][b][c]*W[g][c][k]", "[]"
        dims = {"G": "G", "B": "N", "C": "C", "K": "K"}
    sizes = ", ".join(str(nest.sizes[name]) for name in dims.values())
    return (
        f"- id: {number} # {_line(nest.name)}, {nest.executions} executions\n"
        f"  operator_type: {'Conv' if nest.kind == 'conv' else 'Gemm'}\n"
        f"  equation: {equation}\n"
        f"  dimension_relations: {relations}\n"
        f"  loop_dims: [{', '.join(dims)}]\n"
        f"  loop_sizes: [{sizes}]\n"
        "  operand_precision:\n"
        f"    W: {weight}\n    I: {x}\n    O: {max(out, 32)}\n    O_final: {out}\n"
    )


def _line(text: str) -> str:
    """Text that ends no comment."""
    return " ".join(text.split())
