"""What a forward pass writes for backward, and how many parameters a device holds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from gambrel.analysis.evaluate import Evaluator
from gambrel.dtypes import width_bytes
from gambrel.llm.recompute import class_of, classes_of
from gambrel.ops import Conventions
from gambrel.workload import Op, Role, Workload

_WORD: Final = 2
#: Products whose results are added to the stream: a sum's gradient needs neither of its terms.
_INTO_STREAM: Final = ("o_proj", "down_proj", "out_proj")
_HEAD: Final = "lm_head"


class Parameters(msgspec.Struct, frozen=True, kw_only=True):
    """How many parameters a device has.

    Attributes:
        dense: All that are not experts'.
        experts: Of its experts.
        embedding: Of the look-up, within ``dense``.
        head: Of the head and the norm before it, within ``dense``; the norm alone where the
            look-up has the same matrix.
        tied: Whether it has.
        layer: Of the largest layer, experts included.
        layers: On the device.
        total: Of the model; the first stages have those that are left over.
    """

    dense: float
    experts: float
    embedding: float
    head: float
    tied: bool
    layer: float
    layers: int
    total: int

    @property
    def count(self) -> float:
        """All."""
        return self.dense + self.experts

    def of_stage(self, stage: int, stages: int) -> Parameters:
        """Those of a stage of a pipeline: the first looks up, the last has the head."""
        first, last = stage == 0, stage == stages - 1
        embedding = self.embedding if first or (self.tied and last) else 0.0
        head = self.head if last else 0.0
        whole, left = divmod(self.total, stages)
        layers = whole + (stage < left)
        more = (layers - self.layers) * self.layer
        dense = self.dense - self.embedding - self.head + embedding + head + more
        return msgspec.structs.replace(
            self, dense=dense, embedding=embedding, head=head, layers=layers
        )


class Intermediates(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes that one microbatch writes in forward on a device, and that backward reads.

    Attributes:
        all_bytes: Of all layers.
        layer_bytes: Of one layer of each kind.
        stream_bytes: Of the residual stream in front of each layer.
        freed: Class of ops → bytes that only it writes: in all layers, in one.
        selected_bytes: Of attention and every second product.
        passing_bytes: Gradients that are there at once in backward: of what the widest op of a
            layer reads and writes.
        logits: How many.
        shared: Whether devices share the vocabulary.
        own: Parameters of the device.
    """

    all_bytes: float
    layer_bytes: float
    stream_bytes: float
    freed: dict[str, tuple[float, float]]
    selected_bytes: float
    passing_bytes: float
    logits: float
    shared: bool
    own: Parameters

    def kept(self, recompute: str) -> tuple[float, float]:
        """Bytes until backward has used them: of each microbatch in flight, and once besides."""
        if recompute == "full":
            return self.stream_bytes, self.layer_bytes
        if recompute == "selective":
            return self.stream_bytes + self.selected_bytes, self.layer_bytes
        freed = [self.freed[name] for name in classes_of(recompute) if name in self.freed]
        return self.all_bytes - sum(f for f, _ in freed), sum(f for _, f in freed)


def parameters_of(forward: Workload, total: int | None = None) -> Parameters:
    """Parameters of a device, by what becomes of them.

    Args:
        forward: The pass on the device.
        total: Layers of the model; None: those of the pass.
    """
    evaluator = Evaluator(forward, {}, {}, Conventions())
    found = dict.fromkeys(("dense", "experts", "embedding", "head"), 0.0)
    layers: dict[str, float] = {}
    seen: set[int] = set()
    for op in forward.ops:
        for index in op.inputs:
            t = forward.tensors[index]
            if t.role is not Role.WEIGHT or t.storage in seen:
                continue
            seen.add(t.storage)
            own = float(evaluator.tensor(index).elements)
            found["experts" if op.kind == "grouped_matmul" else "dense"] += op.repeat * own
            if op.kind == "embedding":
                found["embedding"] += own
            elif ".*" not in op.module:
                found["head"] += own
            else:
                layer = op.module.split(".*", 1)[0]
                layers[layer] = layers.get(layer, 0.0) + own
    count = sum(_layers(forward).values())
    largest = max(layers.values(), default=0.0)
    head = next(op.inputs[1] for op in forward.ops if op.module == _HEAD)
    look_up = next(op.inputs[0] for op in forward.ops if op.kind == "embedding")
    tied = forward.tensors[head].storage == forward.tensors[look_up].storage
    return Parameters(**found, tied=tied, layer=largest, layers=count, total=total or count)


def intermediates_of(forward: Workload, tensor: int = 1, total: int | None = None) -> Intermediates:
    """What a forward pass writes for backward, by class of op.

    Args:
        forward: The pass on one device.
        tensor: Devices that share each layer; they share the positions of the stream and of its
            norms, too (sequence parallelism: Korthikanti et al., 2022).
        total: Layers of the model; None: those of the pass.
    """
    evaluator = Evaluator(forward, {}, {}, Conventions())
    kept = layer = 0.0
    freed: dict[str, tuple[float, float]] = {}
    for op, name, nbytes in _written(forward, evaluator, tensor):
        kept += op.repeat * nbytes
        layer += nbytes
        if name and op.repeat > 1:
            every, one = freed.get(name, (0.0, 0.0))
            freed[name] = (every + op.repeat * nbytes, one + nbytes)
    head = next(op for op in forward.ops if op.module == _HEAD)
    return Intermediates(
        all_bytes=kept,
        layer_bytes=layer,
        stream_bytes=sum(_stream(forward, evaluator)) / tensor,
        freed=freed,
        selected_bytes=_selected(forward, evaluator, tensor),
        passing_bytes=max(_passing(forward, evaluator), default=0.0),
        logits=float(evaluator.tensor(head.outputs[0]).elements),
        shared=any(op.kind == "collective" and op.module == _HEAD for op in forward.ops),
        own=parameters_of(forward, total),
    )


def _written(
    forward: Workload, evaluator: Evaluator, tensor: int
) -> Iterator[tuple[Op, str, float]]:
    """Op, class of ops that writes it (empty: kept in any case), bytes."""
    seen: set[int] = set()
    for op in forward.ops:
        if op.kind == "grouped_matmul":
            yield from _rows(op, forward, evaluator)
            continue
        name = class_of(op.kind, op.module, op.name)
        for index in op.outputs:
            t = forward.tensors[index]
            if t.storage in seen or t.role is not Role.ACTIVATION:
                continue
            seen.add(t.storage)
            if op.kind == "matmul" and op.module.endswith(_INTO_STREAM):
                continue
            nbytes = float(evaluator.tensor(index).elements) * width_bytes(t.dtype)
            if op.kind in ("embedding", "normalization") or op.name == "add":
                nbytes /= tensor
            # A norm that adds also writes the stream, which is kept.
            whole = op.kind != "normalization" or index == op.outputs[-1]
            yield op, name if whole else "", nbytes


def _rows(op: Op, forward: Workload, evaluator: Evaluator) -> Iterator[tuple[Op, str, float]]:
    """Of a product of experts: the rows that reach it, and of all but the last what it writes."""
    out = forward.tensors[op.outputs[0]]
    elements = float(evaluator.tensor(op.outputs[0]).elements)
    width = width_bytes(out.dtype)
    shape = evaluator.tensor(op.outputs[0]).shape
    rows = elements / shape[-1]
    weight = evaluator.tensor(op.inputs[1]).shape
    wide = float(weight[-2] if weight[-1] == shape[-1] else weight[-1])
    last = op.module.endswith(_INTO_STREAM)
    yield op, "activations" if last else "", rows * wide * width
    if not last:
        yield op, class_of(op.kind, op.module, op.name), elements * width


def _selected(forward: Workload, evaluator: Evaluator, tensor: int) -> float:
    """Bytes of attention's outputs and of every second product of each layer, fused ones apart."""
    parts = {
        forward.tensors[i].storage: [float(evaluator.tensor(j).elements) for j in op.inputs[:3]]
        for op in forward.ops
        if op.kind == "attention"
        for i in op.inputs[:1]
    }
    kept, seen = 0.0, 0
    for op in forward.ops:
        if ".*" not in op.module or op.kind not in ("matmul", "grouped_matmul", "attention"):
            continue
        out = forward.tensors[op.outputs[0]]
        own = float(evaluator.tensor(op.outputs[0]).elements)
        if op.module.endswith(_INTO_STREAM):
            own /= tensor
        split = [own / 2] * 2 if op.module.endswith("gate_up_proj") else [own]
        for elements in [own] if op.kind == "attention" else parts.get(out.storage, split):
            seen += op.kind != "attention"
            if op.kind == "attention" or seen % 2:
                kept += op.repeat * elements * width_bytes(out.dtype)
    return kept


def _passing(forward: Workload, evaluator: Evaluator) -> Iterator[float]:
    """Bytes that each op of a layer reads and writes besides weights."""
    for op in forward.ops:
        if ".*" in op.module and op.kind != "collective":
            yield sum(
                float(evaluator.tensor(i).nbytes)
                for i in (*op.inputs, *op.outputs)
                if forward.tensors[i].role is Role.ACTIVATION
            )


def _stream(forward: Workload, evaluator: Evaluator) -> list[float]:
    """Bytes of the residual stream in front of each layer."""
    first = next(op for op in forward.ops if op.kind == "embedding")
    nbytes = float(evaluator.tensor(first.outputs[0]).nbytes)
    return [nbytes * count for count in _layers(forward).values()]


def _layers(forward: Workload) -> dict[str, int]:
    """How many layers of each kind there are."""
    return {op.module.split(".*", 1)[0]: op.repeat for op in forward.ops if ".*" in op.module}
