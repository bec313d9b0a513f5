"""The backward pass of a language model's forward workload, and the update of its weights.

Each forward op yields the ops of its gradients, in reverse order, with the kinds and formulas that
captured training steps have. Gradients of additions pass on unchanged and cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from gambrel.llm.dims import times
from gambrel.llm.recompute import class_of, classes_of
from gambrel.workload import Op, Phase, Role, Tensor, Workload
from gambrel.workload.model import Attributes, Sizes

_replace = msgspec.structs.replace


class Tape:
    """Ops and tensors of a training step while it is written.

    Args:
        forward: The workload of the forward pass.
    """

    def __init__(self, forward: Workload) -> None:
        self.tensors = list(forward.tensors)
        self.ops = list(forward.ops)
        self._storages = 1 + max((t.storage for t in forward.tensors), default=-1)

    def like(self, index: int, role: Role = Role.ACTIVATION, dtype: str = "") -> int:
        """A tensor of the same size in memory of its own."""
        t = self.tensors[index]
        return self.new(_replace(t, role=role, dtype=dtype or t.dtype, version=0, name=""))

    def new(self, t: Tensor) -> int:
        """Adds a tensor in memory of its own."""
        self.tensors.append(_replace(t, storage=self._storages, offset=0))
        self._storages += 1
        return len(self.tensors) - 1

    def gradient(self, index: int) -> int:
        """The gradient of a tensor: in its own role for weights, an activation otherwise."""
        weight = self.tensors[index].role is Role.WEIGHT
        return self.like(index, Role.GRADIENT if weight else Role.ACTIVATION, self._format(index))

    def _format(self, index: int) -> str:
        """Gradients of narrow weights are kept in 16 bits."""
        dtype = self.tensors[index].dtype
        return dtype if dtype in _WIDE else "bf16"

    def put(self, op: Op, kind: str, inputs: list[int], outputs: list[int], **changes: Any) -> None:
        """Writes a backward op for ``op``."""
        fields: dict[str, Any] = {"sizes": op.sizes, "attrs": op.attrs, "name": kind, **changes}
        self.ops.append(
            _replace(
                op,
                kind=kind,
                inputs=tuple(inputs),
                outputs=tuple(outputs),
                phase=Phase.BACKWARD,
                **fields,
            )
        )


_WIDE: Final = frozenset({"bf16", "fp16", "fp32"})


def with_backward(forward: Workload, *, recompute: str = "none") -> Workload:
    """Forward, loss and backward.

    Args:
        forward: A forward pass whose head saw every token.
        recompute: What runs again, as of `gambrel.llm.recompute`: ``"full"`` keeps only what
            crosses layers and runs all forward ops of the layers again.
    """
    tape, classes = Tape(forward), classes_of(recompute)
    logits = forward.outputs[0]
    _loss(tape, logits)
    for op in reversed(forward.ops):
        rule = _RULES.get(op.kind)
        again = op.repeat > 1 if recompute == "full" else class_of(op.kind, op.module, op.name)
        if again is True or again in classes:
            rerun = _half(op) if recompute == "selective" else op
            tape.ops.append(_replace(rerun, phase=Phase.BACKWARD))
        if rule is not None:
            rule(tape, op)
    return _replace(
        forward, tensors=tuple(tape.tensors), ops=tuple(tape.ops), training=True, outputs=(logits,)
    )


def kept_scores(passes: Workload) -> Workload:
    """The same, with attention whose backward pass does not form the scores again."""
    ops = (
        _replace(op, attrs={**op.attrs, "recompute": False})
        if op.kind == "attention_backward"
        else op
        for op in passes.ops
    )
    return _replace(passes, ops=tuple(ops))


def _half(op: Op) -> Op:
    """A product of which every second one runs again, as half of its columns; else the op."""
    n = op.sizes.get("n")
    return _replace(op, sizes={**op.sizes, "n": max(1, n // 2)}) if isinstance(n, int) else op


def _loss(tape: Tape, logits: int) -> None:
    rows, classes = tape.tensors[logits].shape
    elements = times(rows, classes)
    target = tape.new(Tensor(shape=(rows,), dtype="int64", storage=0, role=Role.INPUT))
    mean = tape.new(Tensor(shape=(), dtype="fp32", storage=0))
    sizes: Sizes = {"elements": elements, "rows": rows}
    attrs: Attributes = {"function": "cross_entropy"}
    loss = Op(
        kind="loss",
        inputs=(logits, target),
        outputs=(mean,),
        sizes=sizes,
        attrs=attrs,
        name="cross_entropy",
        module="loss",
    )
    tape.ops.append(loss)
    tape.put(loss, "loss_backward", [mean, logits, target], [tape.gradient(logits)])


def _matmul(tape: Tape, op: Op) -> None:
    """The gradients dx = dy·wᵀ and dw = xᵀ·dy: two products as large as the forward one."""
    s = op.sizes
    attrs = {k: v for k, v in op.attrs.items() if k not in ("bias", "dequantize")}
    dy = _input_gradient(tape, op, attrs)
    x, w = op.inputs[:2]
    tape.put(
        op,
        "matmul",
        [dy, x],
        [tape.gradient(w)],
        sizes={**s, "m": s["n"], "n": s["k"], "k": s["m"]},
        attrs=attrs,
        name="weight gradient",
    )


def _grouped(tape: Tape, op: Op) -> None:
    """The same for the rows of each expert."""
    attrs = {k: v for k, v in op.attrs.items() if k in _KEPT}
    dy = _input_gradient(tape, op, attrs)
    x, w = op.inputs[:2]
    attrs = {**attrs, "weight_gradient": True}
    tape.put(op, op.kind, [x, dy], [tape.gradient(w)], attrs=attrs, name="weight gradient")


#: What the products of backward keep of the forward one.
_KEPT: Final = ("routing_skew", "compute_dtype", "own_rows")


def _input_gradient(tape: Tape, op: Op, attrs: Attributes) -> int:
    """Writes dx = dy·wᵀ; returns dy."""
    x, w = op.inputs[:2]
    s, dy = op.sizes, tape.gradient(op.outputs[0])
    sizes = {**s, "n": s["k"], "k": s["n"]}
    name = "input gradient"
    tape.put(op, op.kind, [dy, w], [tape.gradient(x)], sizes=sizes, attrs=attrs, name=name)
    return dy


def _attention(tape: Tape, op: Op) -> None:
    q, k, v = op.inputs[:3]
    out = op.outputs[0]
    gradients = [tape.gradient(i) for i in (q, k, v)]
    tape.put(op, "attention_backward", [tape.gradient(out), q, k, v, out], gradients)


def _scores(tape: Tape, op: Op) -> None:
    gradients = [tape.gradient(i) for i in op.inputs]
    tape.put(op, "attention_scores_backward", [tape.gradient(op.outputs[0]), *op.inputs], gradients)


def _normalization(tape: Tape, op: Op) -> None:
    # Norms without outputs run inside the kernel behind them, and so do their gradients.
    incoming = [tape.gradient(i) for i in op.outputs[-1:]]
    gradients = [tape.gradient(i) for i in op.inputs]
    tape.put(op, "normalization_backward", [*incoming, *op.inputs], gradients)


def _elementwise(tape: Tape, op: Op) -> None:
    if op.attrs.get("function") == "add" or not op.outputs:
        return
    gradients = [tape.gradient(i) for i in op.inputs]
    tape.put(op, "elementwise_backward", [tape.gradient(op.outputs[0]), *op.inputs], gradients)


def _softmax(tape: Tape, op: Op) -> None:
    out = op.outputs[0]
    tape.put(op, "softmax_backward", [tape.gradient(out), out], [tape.gradient(op.inputs[0])])


def _scan(tape: Tape, op: Op) -> None:
    """A recurrence over the sequence: gradients of all that it reads; states are formed again."""
    dy = tape.gradient(op.outputs[0])
    gradients = [tape.gradient(i) for i in op.inputs]
    tape.put(op, f"{op.kind}_backward", [dy, *op.inputs], gradients)


def _convolution(tape: Tape, op: Op) -> None:
    """Gradients of the input and the weights, each as many products as forward; of the bias."""
    x, weight, *bias = op.inputs[: 3 if op.attrs.get("bias") else 2]
    gradients = [tape.gradient(i) for i in (x, weight, *bias)]
    attrs = {"grad_input": True, "grad_weight": True, "grad_bias": bool(bias)}
    inputs = [tape.gradient(op.outputs[0]), x, weight]
    tape.put(op, "convolution_backward", inputs, gradients, attrs=attrs)


def _embedding(tape: Tape, op: Op) -> None:
    table, ids = op.inputs[:2]
    dy = tape.gradient(op.outputs[0])
    tape.put(op, "embedding_backward", [dy, ids], [tape.gradient(table)])


def _collective(tape: Tape, op: Op) -> None:
    """What is added in forward is handed out in backward, and the other way round."""
    opposite = {"all_gather": "reduce_scatter", "reduce_scatter": "all_gather"}
    function = str(op.attrs["function"])
    attrs = {**op.attrs, "function": opposite.get(function, function)}
    tape.put(op, "collective", list(op.inputs), list(op.outputs), attrs=attrs, name=op.name)


_RULES: Final[dict[str, Callable[[Tape, Op], None]]] = {
    "matmul": _matmul,
    "grouped_matmul": _grouped,
    "attention": _attention,
    "attention_scores": _scores,
    "normalization": _normalization,
    "elementwise": _elementwise,
    "softmax": _softmax,
    "embedding": _embedding,
    "collective": _collective,
    "convolution": _convolution,
    **dict.fromkeys(("ssd_scan", "selective_scan", "delta_scan"), _scan),
}

#: Kinds that pass no gradient on, or whose gradient is one of another kind's.
FREE: Final = frozenset({"sort"})


def unknown(forward: Workload) -> tuple[str, ...]:
    """Kinds of a forward pass whose gradients are not known here."""
    kinds = dict.fromkeys(op.kind for op in forward.ops)
    return tuple(kind for kind in kinds if kind not in _RULES and kind not in FREE)
