"""From steps to a workload: tensors with their memory, ops with their neutral kinds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import msgspec

from gambrel.capture.aten import Described, TensorArg
from gambrel.capture.aten.call import present
from gambrel.capture.files.export_tensors import GraphValue, Tensors, TensorStorage
from gambrel.capture.onnx.edges import Edge, Step, Trace
from gambrel.capture.onnx.lowering import NodeOperands, lower
from gambrel.capture.onnx.lowering.attention import SCALED, TOKENS_FIRST
from gambrel.capture.onnx.views import layouts
from gambrel.workload import Op, Role, Workload


@dataclass(slots=True)
class Builder:
    """Collects tensors and ops of one trace.

    Attributes:
        tensors: All tensors.
        ops: In order.
    """

    tensors: Tensors = field(default_factory=lambda: Tensors({}))
    ops: list[Op] = field(default_factory=list)
    _values: dict[Edge, GraphValue] = field(default_factory=dict)
    _laid_out: set[Step] = field(default_factory=set)
    _places: dict[object, TensorStorage] = field(default_factory=dict)
    _family: str = "onnx"

    def build(self, trace: Trace, *, name: str, origin: str) -> Workload:
        """The workload of a trace.

        Args:
            trace: At given sizes, after all passes.
            name: Of the workload.
            origin: Where it comes from.
        """
        self._family = trace.family
        layers = _layers(trace)
        for edge in (*trace.inputs, *trace.stored):
            if edge in layers:
                self._share(edge, layers[edge])
            elif edge.is_known and (edge.role is not Role.CONSTANT):
                self.tensors.entry(self.value(edge))
        for step in trace.steps:
            self._add(step)
        outputs = [self.value(e) for e in trace.outputs if e.is_known]
        notes = tuple(f"{note[0].upper()}{note[1:]}." for note in trace.notes)
        found = self.tensors.workload(name, self.ops, outputs, origin)
        return msgspec.structs.replace(found, assumptions=notes)

    def _share(self, source: Edge, steps: list[Step]) -> None:
        """Makes the parts of stacked parameters one tensor, with as many copies as parts."""
        memory = self.value(steps[0].out).memory
        memory.role, memory.name = source.role, source.name
        memory.copies = int(steps[0].attrs["copies"])
        for step in steps:
            self.value(step.out).memory = memory
            self._laid_out.add(step)
        self.tensors.entry(self.value(steps[0].out))

    def value(self, edge: Edge) -> GraphValue:
        """The tensor of an edge; made when it is new."""
        found = self._values.get(edge)
        if found is None:
            found = self.tensors.temporary(edge.shape or (), edge.dtype)
            if edge.place is not None:
                found.memory = self._places.setdefault(edge.place, found.memory)
            found.memory.role = edge.role
            found.memory.name = edge.name if edge.role is not Role.ACTIVATION else ""
            self._values[edge] = found
        return found

    def _args(self, edges: Iterable[Edge | None]) -> list[TensorArg | None]:
        return [self.value(e).arg if e is not None and e.is_known else None for e in edges]

    def _add(self, step: Step) -> None:
        if step in self._laid_out:
            return
        inputs = self._args(step.inputs)
        first = step.inputs[0] if step.inputs else None
        if first is not None and first.is_known and self._view(step, self.value(first)):
            return
        if step.op == SCALED and len(step.out.shape or ()) == 4:
            self._lay(step.out, TOKENS_FIRST)
        if "laid" in step.attrs:
            self._lay(step.out, step.attrs["laid"])
        outputs = self._args(step.outputs)
        operands = NodeOperands(step, inputs, outputs, self._temporary)
        described = lower(operands)
        if described is None:
            kept = (present(*inputs), present(*outputs))
            described = [Described(self._name(step), {}, {}, *kept)]
        for part in described:
            if part.kind != "view":
                self._append(step, part, operands.times)

    def _name(self, step: Step) -> str:
        return f"{self._family}.{step.label or step.op.removeprefix('gambrel::')}"

    def _lay(self, edge: Edge, perm: Sequence[int]) -> None:
        """Gives a result the memory order in which its transpose by ``perm`` is dense."""
        shape = edge.shape or ()
        strides, step = [0] * len(shape), 1
        for d in reversed(perm):
            strides[d], step = step, step * shape[d]
        if edge not in self._values:
            value = self.value(edge)
            value.arg = TensorArg(value.arg.id, shape, edge.dtype, tuple(strides))

    def _view(self, step: Step, source: GraphValue) -> bool:
        """Gives a step's outputs the memory of its input, if it is a view."""
        found = layouts(step, source.arg)
        if found is None:
            return False
        for edge, (shape, strides, offset) in zip(step.outputs, found, strict=True):
            if edge is None:
                continue
            arg = TensorArg(len(self.tensors.values), shape, source.arg.dtype, strides)
            value = GraphValue(arg, source.offset + offset, source.memory)
            self.tensors.values.append(value)
            self._values[edge] = value
        return True

    def _temporary(self, shape: tuple[int, ...], dtype: str) -> TensorArg:
        return self.tensors.temporary(shape, dtype).arg

    def _append(self, step: Step, part: Described, times: int) -> None:
        tensors = self.tensors
        self.ops.append(
            Op(
                kind=part.kind,
                inputs=tuple(tensors.entry(tensors.of(t)) for t in part.inputs),
                outputs=tuple(tensors.entry(tensors.of(t)) for t in part.outputs),
                sizes=part.sizes,
                attrs=part.attrs,
                name=self._name(step),
                module=step.module.replace(":", "."),  # a colon parts the runs of a pipeline
                source=step.source,
                repeat=step.repeat * times,
                phase=step.phase,
                labels=step.labels,
            )
        )


def _layers(trace: Trace) -> dict[Edge, list[Step]]:
    """Parameters of equal layers that lie in one tensor, of which each trip of a loop reads a part.

    Only where nothing reads the tensor as a whole.
    """
    readers: dict[Edge, list[Step]] = {}
    for step in trace.steps:
        for edge in step.inputs:
            if edge is not None and edge.is_stored:
                readers.setdefault(edge, []).append(step)
    kept = set(trace.outputs)
    return {
        edge: steps
        for edge, steps in readers.items()
        if edge not in kept and all(_is_layer(s, edge) for s in steps)
    }


def _is_layer(step: Step, edge: Edge) -> bool:
    if not edge.numel:
        return False
    return (
        step.op == "gambrel::Part"
        and step.attrs.get("copies") == (edge.shape or (0,))[0]
        and step.repeat % step.attrs["copies"] == 0
        and step.out.is_known
    )
