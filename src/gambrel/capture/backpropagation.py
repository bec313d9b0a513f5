"""A training step of a built-in network from its forward pass: loss, gradients, update.

Where the code of a network is at hand, its training step is recorded; see
`gambrel.capture.torch.training`. Here the ops that PyTorch would run are written behind those of
the forward pass, last one first: the chain rule needs the ops and their tensors, no code. Gradients
of views are views; what several ops read gets the sum of their gradients; one update per parameter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec.structs import replace

from gambrel.errors import CaptureError
from gambrel.llm.dims import times
from gambrel.workload import Op, Phase, Role, Tensor, Workload
from gambrel.workload.binding import bind
from gambrel.workload.formats import in_format
from gambrel.workload.model import Sizes

#: A rule writes the gradients of an op, given that of its result.
Rule = Callable[["Gradients", Op, int], None]

_FLOATS: Final = ("fp", "bf", "tf")
#: What has a value of its own for each step, and what is learned.
_LEARNED: Final = Role.WEIGHT
_ASSUMED: Final = (
    "the loss is the sum of the outputs, for want of another; the update is AdamW's, with two "
    "states per parameter",
    "gradients are those of the forward pass as it is built in: without dropout",
)
_ONE_FORMAT: Final = (
    "one format throughout, parameters and states too; --autocast has mixed precision"
)


def training_step(forward: Workload) -> Workload:
    """Forward, loss, backward and update of a network.

    Args:
        forward: Its forward pass; sizes may be open.

    Raises:
        CaptureError: Kinds of ops whose gradients are not known here.
    """
    forward = in_format(forward, forward.dtype)  # casts of gradients are not known here
    step = Gradients(forward)
    for output in forward.outputs:
        step.begin(output)
    for op in reversed(forward.ops):
        step.pass_on(op)
    if step.unknown:
        kinds = ", ".join(dict.fromkeys(step.unknown))
        raise CaptureError(
            f"{forward.name}: gradients of {kinds} are not known here; give code of PyTorch "
            "(file.py:function), or train one that has them, e.g. 'gambrel analyze resnet50 "
            "--hardware h100 --train'."
        )
    step.update()
    return step.workload()


class Gradients:
    """Gradients on their way back through a forward pass.

    Args:
        forward: The forward pass.
    """

    def __init__(self, forward: Workload) -> None:
        self._forward = forward
        self._elements = [_count(t) for t in bind(forward).tensors]
        self._tensors = list(forward.tensors)
        self._ops = [op for each in forward.ops for op in _as_trained(each)]
        self._storages = 1 + max((t.storage for t in self._tensors), default=-1)
        self._reached = _reached(forward)
        self._waiting: dict[tuple[int, int], list[int]] = {}
        self._learned: dict[int, tuple[int, int]] = {}
        self.unknown: list[str] = []

    def begin(self, output: int) -> None:
        """The loss over an output, and the ones that its gradient begins with."""
        t = self._tensors[output]
        if not self.needs(output):
            return
        elements = times(*t.shape)
        loss = self.new(Tensor(shape=(), dtype=t.dtype, storage=0))
        summed: Sizes = {"elements": elements, "outputs": 1}
        plain = Op(kind="reduction", name="aten.sum", attrs={"function": "sum"}, module="loss")
        self._ops.append(replace(plain, sizes=summed, inputs=(output,), outputs=(loss,)))
        ones = self.like(output)
        self._write(Op(kind="fill", name="aten.ones_like", sizes={"elements": elements}), [], ones)
        self._keep(output, ones)

    def pass_on(self, op: Op) -> None:
        """Writes the gradients of an op, where a gradient of its result arrives."""
        arrived = [(i, self._sum(i)) for i in op.outputs]
        found = next((g for _, g in arrived if g is not None), None)
        if found is None or not any(self.needs(i) for i in op.inputs):
            return
        rule = RULES.get(op.kind)
        if rule is None:
            self.unknown.append(op.kind)
        else:
            rule(self, op, found)

    def needs(self, index: int) -> bool:
        """Whether a tensor gets a gradient: learned, or computed from what is learned."""
        t = self._tensors[index]
        learned = t.role is _LEARNED or (t.storage, t.version) in self._reached
        return learned and t.dtype.startswith(_FLOATS)

    def shape(self, index: int) -> tuple[Any, ...]:
        """Sizes of a tensor."""
        return self._tensors[index].shape

    def is_learned(self, index: int) -> bool:
        """Whether it is a parameter."""
        return self._tensors[index].role is _LEARNED

    def size(self, index: int) -> int:
        """Elements at the default sizes."""
        return self._elements[index]

    def new(self, t: Tensor) -> int:
        """Adds a tensor in memory of its own."""
        self._tensors.append(replace(t, storage=self._storages, offset=0, version=0, copies=1))
        self._elements.append(0)
        self._storages += 1
        return len(self._tensors) - 1

    def like(self, index: int) -> int:
        """A gradient of a tensor, in memory of its own."""
        t = self._tensors[index]
        role = Role.GRADIENT if t.role is _LEARNED else Role.ACTIVATION
        made = self.new(replace(t, role=role, name=f"{t.name}.grad" if t.name else ""))
        self._elements[made] = self._elements[index]
        return made

    def write(
        self, op: Op, kind: str, inputs: Sequence[int], to: Sequence[int], **more: Any
    ) -> None:
        """Writes a backward op whose results are the gradients of the tensors ``to``."""
        made = [self.like(i) for i in to]
        fields: dict[str, Any] = {"name": kind, **more}
        self._write(replace(op, kind=kind, **fields), inputs, *made)
        for index, gradient in zip(to, made, strict=True):
            self._keep(index, gradient)

    def hand_on(self, index: int, gradient: int) -> None:
        """Passes a gradient on as it is, or summed up where the operand was spread."""
        if not self.needs(index):
            return
        own, arrived = (self._tensors[i].dtype for i in (index, gradient))
        if own != arrived and self.size(index) >= self.size(gradient):
            self.write(Op(kind=""), "copy", [gradient], [index], **_CAST)
        elif self.size(index) < self.size(gradient):
            sizes: Sizes = {
                "elements": times(*self.shape(gradient)),
                "outputs": times(*self.shape(index)),
            }
            self.write(Op(kind=""), "reduction", [gradient], [index], sizes=sizes, **_SUM)
        else:
            self._keep(index, gradient)

    def multiply(self, op: Op, gradient: int, factor: int, index: int) -> None:
        """The product of a gradient and a factor, handed on."""
        product = self.like(gradient)
        made = replace(op, kind="elementwise", name="aten.mul", attrs={"function": "mul"})
        self._write(made, [gradient, factor], product)
        self.hand_on(index, product)

    def hand_on_part(self, index: int, gradient: int) -> None:
        """Passes on the part of a gradient that belongs to an operand of a copy: a view."""
        whole, t = self._tensors[gradient], self._tensors[index]
        self._tensors.append(replace(t, storage=whole.storage, version=whole.version, offset=0))
        view = len(self._tensors) - 1
        self._tensors[view] = replace(self._tensors[view], role=whole.role, name="")
        self._elements.append(self._elements[index])
        self._keep(index, view)

    def update(self) -> None:
        """An update per parameter, as one fused kernel has it."""
        for index, gradient in self._learned.values():
            t = self._tensors[index]
            states = [
                self.new(replace(t, role=Role.OPTIMIZER_STATE, name=f"{t.name}.{state}"))
                for state in ("exp_avg", "exp_avg_sq")
            ]
            self._ops.append(
                Op(
                    kind="optimizer",
                    inputs=(index, gradient, *states),
                    outputs=(index, *states),
                    sizes={"elements": times(*t.shape)},
                    attrs={"function": "adamw", "fused": True, "weight_decay": False},
                    name="torch.optim.adamw",
                    module=t.name.rpartition(".")[0],
                    phase=Phase.OPTIMIZER,
                )
            )

    def workload(self) -> Workload:
        """The whole step."""
        return replace(
            self._forward,
            tensors=tuple(self._tensors),
            ops=tuple(self._ops),
            training=True,
            assumptions=(
                *self._forward.assumptions,
                *_ASSUMED,
                *(() if self._forward.precisions else (_ONE_FORMAT,)),
            ),
            recipe="",
        )

    def _write(self, op: Op, inputs: Sequence[int], *outputs: int) -> None:
        self._ops.append(
            replace(op, inputs=tuple(inputs), outputs=outputs, phase=Phase.BACKWARD, labels=())
        )

    def _keep(self, index: int, gradient: int) -> None:
        t = self._tensors[index]
        if t.role is _LEARNED and t.storage in self._learned:
            self._add(gradient, self._learned[t.storage][1])
        elif t.role is _LEARNED:
            self._learned[t.storage] = index, gradient
        else:
            self._waiting.setdefault((t.storage, t.version), []).append(gradient)

    def _sum(self, index: int) -> int | None:
        """The gradient of a result: parts of it side by side, then the sum of whole ones."""
        t = self._tensors[index]
        found = self._waiting.pop((t.storage, t.version), [])
        parts = [g for g in found if self.size(g) < self.size(index)]
        whole = [g for g in found if self.size(g) >= self.size(index)]
        if parts:
            joined = self.like(index)
            self._write(Op(kind="copy", attrs={"function": "cat"}, name="aten.cat"), parts, joined)
            whole.append(joined)
        for other in whole[1:]:
            self._add(other, whole[0])
        return whole[0] if whole else None

    def _add(self, gradient: int, into: int) -> None:
        sizes: Sizes = {"elements": times(*self.shape(into))}
        op = Op(kind="elementwise", name="aten.add", sizes=sizes, attrs={"function": "add"})
        self._write(op, [into, gradient], into)


_SUM: Final[dict[str, Any]] = {"name": "aten.sum", "attrs": {"function": "sum"}}
_CAST: Final[dict[str, Any]] = {"name": "aten._to_copy", "attrs": {"function": "cast"}}


def _reached(forward: Workload) -> set[tuple[int, int]]:
    """Storage and version of what is computed from something learned."""
    found: set[tuple[int, int]] = set()
    for op in forward.ops:
        read = [forward.tensors[i] for i in op.inputs]
        if any(t.role is _LEARNED or (t.storage, t.version) in found for t in read):
            written = (forward.tensors[i] for i in op.outputs)
            found |= {(t.storage, t.version) for t in written}
    return found


def _count(t: Tensor) -> int:
    found = 1
    for side in t.shape:
        found *= int(side)
    return found


def _as_trained(op: Op) -> tuple[Op, ...]:
    """Batch norms take the statistics of their batch in training, and count the batches."""
    if op.kind != "normalization" or op.attrs.get("function") != "batch_norm":
        return (op,)
    counted = replace(
        op, kind="elementwise", name="aten.add_", inputs=(), outputs=(), sizes={"elements": 1}
    )
    own = replace(op, attrs={**op.attrs, "statistics": True, "running": True})
    return replace(counted, attrs={"function": "add"}), own


def _matmul(step: Gradients, op: Op, dy: int) -> None:
    """Two products, dx = dy·wᵀ and dw = xᵀ·dy; a bias gets the sum over the rows."""
    s = op.sizes
    operands = [i for i in op.inputs if len(step.shape(i)) > 1][:2]
    if len(operands) < 2:
        step.unknown.append(op.kind)
        return
    x, w = operands
    attrs = {k: v for k, v in op.attrs.items() if k not in ("bias", "activation")}
    if step.needs(x):
        sizes = {**s, "n": s["k"], "k": s["n"]}
        step.write(op, "matmul", [dy, w], [x], sizes=sizes, attrs=attrs, name="input gradient")
    if step.needs(w):
        sizes = {**s, "m": s["k"], "k": s["m"]}
        step.write(op, "matmul", [x, dy], [w], sizes=sizes, attrs=attrs, name="weight gradient")
    for bias in op.inputs:
        if bias not in operands:
            step.hand_on(bias, dy)


def _convolution(step: Gradients, op: Op, dy: int) -> None:
    x, weight, *bias = op.inputs[: 3 if op.attrs.get("bias") else 2]
    attrs = {
        **op.attrs,
        "grad_input": step.needs(x),
        "grad_weight": True,
        "grad_bias": bool(bias),
    }
    to = [i for i in (x, weight, *bias) if step.needs(i)]
    step.write(op, "convolution_backward", [dy, x, weight], to, attrs=attrs)


def _normalization(step: Gradients, op: Op, dy: int) -> None:
    learned = [i for i in op.inputs[1:] if step.is_learned(i)]
    sizes = dict(op.sizes)
    if learned:
        sizes["parameters"] = times(*step.shape(learned[0]))
    to = [i for i in (op.inputs[0], *learned) if step.needs(i)]
    attrs = _as_trained(op)[-1].attrs
    inputs = [dy, op.inputs[0], *learned[:1]]
    step.write(op, "normalization_backward", inputs, to, sizes=sizes, attrs=attrs)


def _attention(step: Gradients, op: Op, dy: int) -> None:
    inputs = [dy, *op.inputs, op.outputs[0]]
    step.write(op, "attention_backward", inputs, [i for i in op.inputs[:3] if step.needs(i)])


def _elementwise(step: Gradients, op: Op, dy: int) -> None:
    """Sums hand their gradient on; products multiply it with the other operand."""
    function = str(op.attrs.get("function"))
    operands = [i for i in op.inputs if step.needs(i)]
    if function in _HANDED_ON:
        for index in operands:
            step.hand_on(index, dy)
    elif function in _GRADIENTS:
        saved = op.inputs[0] if function not in _OF_RESULT else op.outputs[0]
        changed = {"attrs": {**op.attrs, "function": function}}
        step.write(op, "elementwise_backward", [dy, saved], operands[:1], **changed)
        for index in operands[1:]:
            step.hand_on(index, dy)
    else:  # one product with a derivative per operand
        for index in operands:
            others = [i for i in op.inputs if i != index] or [index]
            step.multiply(op, dy, others[0], index)


def _through(kind: str, *, result: bool = False) -> Rule:
    """A rule for one op that reads the gradient and what the forward op read, or its result."""

    def rule(step: Gradients, op: Op, dy: int) -> None:
        saved = op.outputs[:1] if result else op.inputs
        step.write(op, kind, [dy, *saved], [i for i in op.inputs if step.needs(i)])

    return rule


def _embedding(step: Gradients, op: Op, dy: int) -> None:
    table, ids = op.inputs[:2]
    if step.needs(table):
        step.write(op, "embedding_backward", [dy, ids], [table])


def _reduction(step: Gradients, op: Op, dy: int) -> None:
    """Each element gets its share of the gradient of the result."""
    sizes: Sizes = {"elements": times(*step.shape(op.inputs[0]))}
    attrs = {"function": "div"}
    to = [i for i in op.inputs[:1] if step.needs(i)]
    step.write(op, "elementwise", [dy], to, sizes=sizes, attrs=attrs, name="aten.div")


def _copy(step: Gradients, op: Op, dy: int) -> None:
    """Parts of a concatenation are views of its gradient; a copy hands its own on."""
    if op.attrs.get("function") == "cast":
        for index in op.inputs:
            step.hand_on(index, dy)
        return
    for index in op.inputs:
        if step.needs(index):
            step.hand_on_part(index, dy)


def _gather(step: Gradients, op: Op, dy: int) -> None:
    attrs = {"accumulate": True}
    to = [i for i in op.inputs[:1] if step.needs(i)]
    step.write(op, "scatter", [dy, *op.inputs[1:]], to, attrs=attrs)


def _scatter(step: Gradients, op: Op, dy: int) -> None:
    """What was scattered gets its gradient from where it went."""
    for index in op.inputs:
        if step.needs(index):
            step.write(op, "gather", [dy], [index], attrs={})


#: Functions whose gradient is that of the result.
_HANDED_ON: Final = frozenset(("add", "sub", "rsub", "add_scaled", "cast", "where", "masked_fill"))
#: Functions with a gradient of their own kind, and those that it takes from the result.
_GRADIENTS: Final = frozenset(
    (
        *("relu", "relu6", "leaky_relu", "hardtanh", "hardsigmoid", "hardswish", "sigmoid", "tanh"),
        *("silu", "quick_gelu", "gelu", "gelu_tanh", "elu", "softplus", "mish", "glu", "swiglu"),
        *("geglu", "geglu_tanh", "prelu", "logsigmoid", "dropout"),
    )
)
_OF_RESULT: Final = frozenset(("relu", "sigmoid", "tanh"))
_SCANS: Final = ("ssd_scan", "selective_scan", "delta_scan", "recurrent", "attention_scores")

RULES: Final[dict[str, Rule]] = {
    "matmul": _matmul,
    "convolution": _convolution,
    "normalization": _normalization,
    "attention": _attention,
    "elementwise": _elementwise,
    "softmax": _through("softmax_backward", result=True),
    "embedding": _embedding,
    "pooling": _through("pooling_backward"),
    "interpolation": _through("interpolation_backward"),
    "reduction": _reduction,
    "copy": _copy,
    "gather": _gather,
    "sort": _gather,
    "scatter": _scatter,
    **{kind: _through(f"{kind}_backward") for kind in _SCANS},
}
