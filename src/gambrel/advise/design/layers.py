"""A model as an architect's array sees it: kernels with their products, tilings and bytes.

Kernels are those of compilers for NPUs (`gambrel.analysis.fusion`): what follows a GEMM or a
convolution runs inside it, and of the intermediates that pass from kernel to kernel, on-chip memory
keeps what fits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from gambrel.advise.design.stacks import FusedStep, chain_of
from gambrel.advise.design.systolic import Gemm
from gambrel.advise.design.tiles import (
    AttentionShape,
    ConvShape,
    GemmShape,
    Shape,
    Widths,
)
from gambrel.analysis.compulsory import SolPart
from gambrel.analysis.fusion import Kernel
from gambrel.analysis.workbench import Workbench
from gambrel.dtypes import width_bytes
from gambrel.ops import Conventions, Cost, OpView, is_free
from gambrel.ops.base import Engine, product
from gambrel.ops.matmul import touched_share
from gambrel.workload import Role, Workload

#: What a softmax over scores costs is vector work of the op itself; these run on the vector unit.
_VECTOR: Final = (Engine.VECTOR, Engine.SPECIAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerOp:
    """Matrix work of a layer, in the forms that the questions need.

    Attributes:
        gemms: As an array computes it; empty where its form is not modelled.
        shape: As it is tiled; None where every operand crosses once.
        groups: Equal tiled parts.
        widths: Bytes of an element.
        view: The op.
    """

    gemms: tuple[Gemm, ...]
    shape: Shape | None
    groups: int
    widths: Widths
    view: OpView


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayLayer:
    """A kernel, and how many equal ones run.

    Attributes:
        name: Of its main op.
        kind: The same.
        ops: With matrix work.
        matrix_flops: Of one execution.
        unshaped_flops: Of these, of ops whose form an array's cycles are not modelled for.
        vector_flops: FLOP (and evaluations of functions) of one execution by number format.
        traffic_bytes: That cross the memory interface where nothing stays on chip.
        inner_bytes: Of these, what passes from kernel to kernel.
        count: Executions.
    """

    name: str
    kind: str
    ops: tuple[LayerOp, ...]
    matrix_flops: float
    unshaped_flops: float
    vector_flops: Mapping[str, float]
    traffic_bytes: float
    inner_bytes: float
    count: int = 1

    @property
    def key(self) -> tuple[Any, ...]:
        """The same for layers that cost the same."""
        ops = tuple((op.gemms, op.shape, op.groups, op.widths) for op in self.ops)
        work = self.matrix_flops, self.unshaped_flops, tuple(sorted(self.vector_flops.items()))
        return (self.kind, ops, work, self.traffic_bytes, self.inner_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelLayers:
    """A model at given sizes in a number format.

    Attributes:
        name: Of the model, or of a set of models.
        layers: Distinct kernels in order of their first execution.
        sol_parts: What no runtime can avoid.
        items: Items at once.
        io_bytes: Model inputs and outputs.
        coverage: Share of the ops with a formula.
        chain: All kernels in order, as steps that may fuse; empty for a set of models.
    """

    name: str
    layers: tuple[ArrayLayer, ...]
    sol_parts: tuple[SolPart, ...]
    items: int
    io_bytes: float
    coverage: float
    chain: tuple[FusedStep, ...] = ()

    @property
    def matrix_flops(self) -> float:
        """Of a run."""
        return sum(layer.matrix_flops * layer.count for layer in self.layers)

    @property
    def shaped_share(self) -> float:
        """Share of the matrix work whose cycles are modelled."""
        whole = self.matrix_flops
        left = sum(layer.unshaped_flops * layer.count for layer in self.layers)
        return 1 - left / whole if whole else 1.0


def model_layers(
    workload: Workload, sizes: Mapping[str, int], precision: str, accumulate: str
) -> ModelLayers:
    """The layers of a model.

    Args:
        workload: The model.
        sizes: Symbol → value; others keep their defaults.
        precision: Number format.
        accumulate: Format of partial results.
    """
    values = workload.resolve_symbols(sizes)
    bench = Workbench(workload, values, Conventions())
    asked, workload = bench.sized(precision), bench.form(precision)
    from gambrel.runtimes import Kernels

    grouping = asked.grouping
    kernels = grouping.kernels(Kernels.TILED)
    found = [
        _layer(kernel, asked.priced, grouping.inner_bytes(kernel), accumulate) for kernel in kernels
    ]
    priced = [cost for op, _, cost in asked.priced if not is_free(op.kind)]
    evaluator = bench.evaluator(precision)
    given = (i for i, t in enumerate(workload.tensors) if t.role is Role.INPUT)
    ends = {workload.tensors[i].storage: i for i in (*given, *workload.outputs)}
    return ModelLayers(
        name=workload.name,
        layers=merged(layer for layer in found if layer is not None),
        sol_parts=asked.compulsory(None).parts,
        items=int(values.get("batch", 1)),
        io_bytes=float(sum(evaluator.tensor(i).nbytes for i in ends.values())),
        coverage=sum(cost is not None for cost in priced) / len(priced) if priced else 1.0,
        chain=chain_of(kernels, asked.priced),
    )


def merged(layers: Iterator[ArrayLayer]) -> tuple[ArrayLayer, ...]:
    """Distinct layers, each with how many there are."""
    first: dict[tuple[Any, ...], ArrayLayer] = {}
    counted: Counter[tuple[Any, ...]] = Counter()
    for layer in layers:
        first.setdefault(layer.key, layer)
        counted[layer.key] += layer.count
    return tuple(replace(layer, count=counted[key]) for key, layer in first.items())


def together(models: tuple[ModelLayers, ...], name: str) -> ModelLayers:
    """One run of each of several models, one after another."""
    return ModelLayers(
        name=name,
        layers=merged(layer for model in models for layer in model.layers),
        sol_parts=tuple(part for model in models for part in model.sol_parts),
        items=sum(model.items for model in models),
        io_bytes=sum(model.io_bytes for model in models),
        coverage=min(model.coverage for model in models),
    )


def _layer(
    kernel: Kernel, priced: tuple[Any, ...], inner: int, accumulate: str
) -> ArrayLayer | None:
    costs = [(priced[i][0], priced[i][1], priced[i][2]) for i in kernel.ops]
    known = [(op, view, cost) for op, view, cost in costs if cost is not None]
    if not known:
        return None
    ops, matrix, unshaped, vector = [], 0.0, 0.0, Counter[str]()
    for op, view, cost in known:
        times = op.repeat / kernel.repeat
        work = float(_matrix(cost)) * times
        matrix += work
        for (engine, dtype), flops in cost.work.items():
            if engine in _VECTOR:
                vector[dtype] += float(flops) * times
        if work:
            one = layer_op(view, accumulate)
            ops.append(one)
            unshaped += 0.0 if one.gemms else work
    main = next((op for op, _, cost in known if _matrix(cost)), known[0][0])
    return ArrayLayer(
        name=main.module or main.name or main.kind,
        kind=main.kind,
        ops=tuple(ops),
        matrix_flops=matrix,
        unshaped_flops=unshaped,
        vector_flops=dict(vector),
        traffic_bytes=kernel.traffic_bytes / kernel.repeat,
        inner_bytes=float(inner),
        count=kernel.repeat,
    )


def _matrix(cost: Cost) -> Any:
    return sum(n for (engine, _), n in cost.work.items() if engine is Engine.MATRIX)


def layer_op(view: OpView, accumulate: str) -> LayerOp:
    """The forms of an op with matrix work."""
    inputs = [t.dtype for t in view.inputs[:2]] or ["fp32"]
    out = view.outputs[0].dtype if view.outputs else inputs[0]
    widths = Widths(
        inputs=width_bytes(inputs[0]),
        weights=width_bytes(inputs[-1]),
        outputs=width_bytes(out),
        sums=width_bytes(accumulate),
    )
    rule = {
        "matmul": _gemm,
        "grouped_matmul": _grouped,
        "convolution": _convolution,
        "attention": _attention,
    }.get(view.kind)
    gemms, shape, groups = rule(view) if rule else ((), None, 1)
    return LayerOp(gemms=gemms, shape=shape, groups=groups, widths=widths, view=view)


_Forms = tuple[tuple[Gemm, ...], Shape | None, int]


def _gemm(view: OpView) -> _Forms:
    b, m, n, k = (int(view.size(name, 1)) for name in "bmnk")
    return (Gemm(m=m, n=n, k=k, groups=b),), GemmShape(m=m, n=n, k=k), b


def _grouped(view: OpView) -> _Forms:
    """Each touched expert is a product of its own, with an equal share of the rows."""
    if view.attrs.get("weight_gradient"):
        return (), None, 1
    total, used, tokens = (view.size(name) for name in ("experts", "top_k", "tokens"))
    share = touched_share(total, used, tokens, float(view.attrs.get("routing_skew", 0.0)))
    experts = max(1, round(float(total * share)))
    m = -(-int(view.size("rows")) // experts)
    n, k = int(view.size("n")), int(view.size("k"))
    return (Gemm(m=m, n=n, k=k, groups=experts),), GemmShape(m=m, n=n, k=k), experts


def _convolution(view: OpView) -> _Forms:
    groups, batch = int(view.size("groups", 1)), int(view.size("batch"))
    kernel = tuple(int(n) for n in view.size("kernel"))
    spatial = tuple(int(n) for n in view.size("spatial"))
    out, into = int(view.size("out_channels")) // groups, int(view.size("in_channels")) // groups
    pixels, taps = batch * int(product(spatial)), int(product(kernel))
    if view.attrs.get("deformable"):
        return (), None, 1
    if view.attrs.get("transposed"):
        return (Gemm(m=pixels, n=out * taps, k=into, groups=groups),), None, groups
    rows = (1, 1, *spatial)[-2]
    gemm = Gemm(
        m=pixels,
        n=out,
        k=into * taps,
        groups=groups,
        filter_rows=(1, 1, *kernel)[-2],
        out_rows=rows,
    )
    if len(kernel) > 2:
        return (gemm,), None, groups
    shape = ConvShape(
        batch=batch,
        out_channels=out,
        in_channels=into,
        out=(rows, spatial[-1]),
        kernel=((1, 1, *kernel)[-2], kernel[-1]),
        stride=strides(view, (rows, spatial[-1])),
    )
    return (gemm,), shape, groups


def strides(view: OpView, out: tuple[int, int]) -> tuple[int, int]:
    """Input pixels for each result, of images with the channels first or last.

    A workload has no strides: they are those that the sizes of input and output give.
    """
    shape = tuple(int(n) for n in view.inputs[0].shape) if view.inputs else ()
    if len(shape) < 3 or view.attrs.get("transposed"):
        return 1, 1
    image = shape[2:] if shape[1] == int(view.size("in_channels")) else shape[1:-1]
    rows, cols = (1, 1, *image)[-2:]
    return max(1, round(rows / max(out[0], 1))), max(1, round(cols / max(out[1], 1)))


def _attention(view: OpView) -> _Forms:
    """Two products a head; the heads that share keys and values are tiled together.

    Of a causal attention an array computes the tiles below the diagonal: half of the keys.
    """
    batch, heads = int(view.size("batch")), int(view.size("heads"))
    shared = int(view.size("kv_heads", heads))
    rows, keys, d = (int(view.size(n)) for n in ("q_len", "kv_len", "head_dim"))
    dv = int(view.size("v_head_dim", d))
    causal = bool(view.attrs.get("causal")) and view.conventions.causal == "half" and rows > 1
    from gambrel.ops.attention import visible_pairs

    seen = max(1, round(float(visible_pairs(view)) / rows))
    groups = batch * heads
    gemms = Gemm(m=rows, n=seen, k=d, groups=groups), Gemm(m=rows, n=dv, k=seen, groups=groups)
    shape = AttentionShape(
        rows=rows * heads // max(shared, 1), keys=keys, width=d, value_width=dv, causal=causal
    )
    return gemms, shape, batch * shared
