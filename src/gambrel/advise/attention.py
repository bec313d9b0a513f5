"""Attention that a model spells out (scores, softmax, sum of values) as one op."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec

from gambrel.advise.links import StorageLinks
from gambrel.errors import InputError
from gambrel.workload import Op, Phase, Role, Tensor, Workload

#: What may stand between the two products besides the softmax: scale, mask, dropout, layout.
_BETWEEN: Final = frozenset({"elementwise", "copy"})
_LAYOUT: Final = frozenset({"clone", "copy"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """One attention: the ops that it is made of, and what is left of them.

    Attributes:
        members: Indices of all its ops.
        last: Index of the product with the values, in whose place the one op stands.
        operands: Tensors of query, key, value and masks.
        scores: The tensor of scores, for the sizes.
        masked: Whether something is added to the scores.
    """

    members: frozenset[int]
    last: int
    operands: tuple[int, ...]
    scores: Tensor
    masked: bool


def fused_attention(workload: Workload) -> Workload:
    """The model with every attention that it spells out as one fused op.

    Found is: a product of two activations, then only element-wise ops and copies that nothing else
    reads, a softmax, again such ops, and a product with other activations. Copies that only
    bring queries, keys or values into another layout go as well.

    Args:
        workload: Of inference.

    Raises:
        InputError: No attention is spelled out.
    """
    flow = _Flow(workload)
    found = [a for i, op in enumerate(workload.ops) if op.kind == "softmax" and (a := flow.at(i))]
    if not found:
        done = any(op.kind == "attention" for op in workload.ops)
        raise InputError(
            f"{workload.name} spells out no attention (product, softmax, product) that one kernel "
            f"could replace{'; it runs in one kernel already' if done else ''}."
        )
    gone = frozenset().union(*(a.members for a in found))
    made = {a.last: _attention(workload, a) for a in found}
    ops = (made.get(i, op) for i, op in enumerate(workload.ops) if i in made or i not in gone)
    return msgspec.structs.replace(workload, ops=tuple(ops))


def spells_out_attention(workload: Workload) -> bool:
    """Whether `fused_attention` would find something; cheap where there is nothing."""
    if workload.training or not any(op.kind == "softmax" for op in workload.ops):
        return False
    flow = _Flow(workload)
    return any(flow.at(i) for i, op in enumerate(workload.ops) if op.kind == "softmax")


class _Flow:
    """The ways through a workload from and to a softmax."""

    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        links = StorageLinks(workload)
        self._storage, self._writer, self._readers = links.storage, links.writer, links.readers
        self._kept = {self._storage(i) for i in workload.outputs}

    def at(self, softmax: int) -> _Found | None:
        """The attention around a softmax; None where there is none."""
        before = self._upwards(softmax)
        after = self._downwards(softmax)
        if (
            before is None
            or after is None
            or len({op.repeat for op in self._ops(before, after)}) > 1
        ):
            return None
        ops, tensors = self._workload.ops, self._workload.tensors
        first, last = ops[before[-1]], ops[after[-1]]
        members = {*before, softmax, *after}
        query, drop_q = self._source(first.inputs[0])
        key, drop_k = self._source(first.inputs[1])
        value, drop_v = self._source(last.inputs[1])
        masks = [
            i
            for index in before[:-1]
            for i in ops[index].inputs
            if self._writer.get(self._storage(i)) not in members and tensors[i].shape
        ]
        return _Found(
            members=frozenset({*members, *drop_q, *drop_k, *drop_v}),
            last=after[-1],
            operands=(query, key, value, *dict.fromkeys(masks)),
            scores=tensors[ops[softmax].inputs[0]],
            masked=bool(masks),
        )

    def _ops(self, *groups: list[int]) -> list[Op]:
        return [self._workload.ops[i] for group in groups for i in group]

    def _upwards(self, softmax: int) -> list[int] | None:
        """The ops from the softmax back to the product that makes the scores."""
        path: list[int] = []
        current = softmax
        while True:
            op = self._workload.ops[current]
            made = [
                w
                for i in op.inputs
                if (w := self._writer.get(self._storage(i))) is not None
                and w < current
                and self._only_reader(i, current)
                and (self._workload.ops[w].kind in _BETWEEN or self._is_product(w))
            ]
            # The scores lead to the product; a mask that is formed on the way does not.
            lead = [w for w in made if self._is_product(w)] or made[:1]
            if not lead:
                return None
            path.append(lead[0])
            if self._is_product(lead[0]):
                return path
            current = lead[0]

    def _downwards(self, softmax: int) -> list[int] | None:
        """The ops from the softmax to the product with the values."""
        path: list[int] = []
        current = softmax
        while True:
            out = self._workload.ops[current].outputs
            readers = {r for i in out for r in self._readers[self._storage(i)] if r > current}
            if len(readers) != 1 or self._kept & {self._storage(i) for i in out}:
                return None
            current = readers.pop()
            path.append(current)
            if self._is_product(current):
                first = self._workload.ops[current].inputs[0]
                return path if self._storage(first) in {self._storage(i) for i in out} else None
            if self._workload.ops[current].kind not in _BETWEEN:
                return None

    def _is_product(self, index: int) -> bool:
        op = self._workload.ops[index]
        roles = {self._workload.tensors[i].role for i in op.inputs[:2]}
        return op.kind == "matmul" and len(op.inputs) == 2 and Role.WEIGHT not in roles

    def _only_reader(self, tensor: int, reader: int) -> bool:
        storage = self._storage(tensor)
        later = [r for r in self._readers[storage] if r != self._writer.get(storage)]
        return later == [reader] and storage not in self._kept

    def _source(self, tensor: int) -> tuple[int, tuple[int, ...]]:
        """An operand before copies that only change its layout, and those copies."""
        dropped: list[int] = []
        while True:
            writer = self._writer.get(self._storage(tensor))
            op = None if writer is None else self._workload.ops[writer]
            if (
                writer is None
                or op is None
                or op.kind != "copy"
                or op.attrs.get("function") not in _LAYOUT
                or len(self._readers[self._storage(tensor)]) != 1
            ):
                return tensor, tuple(dropped)
            dropped.append(writer)
            tensor = op.inputs[0]


def _attention(workload: Workload, found: _Found) -> Op:
    """The one op, in place of the last product."""
    last = workload.ops[found.last]
    first = next(
        workload.ops[i]
        for i in sorted(found.members)
        if workload.ops[i].kind == "matmul" and i != found.last
    )
    shape = found.scores.shape
    four = len(shape) == 4
    batch, heads = (shape[0], shape[1]) if four else (first.sizes.get("b", 1), 1)
    return Op(
        kind="attention",
        inputs=found.operands,
        outputs=last.outputs,
        sizes={
            "batch": batch,
            "heads": heads,
            "kv_heads": heads,
            "q_len": first.sizes["m"],
            "kv_len": first.sizes["n"],
            "head_dim": first.sizes["k"],
            "v_head_dim": last.sizes["n"],
        },
        attrs={"causal": False, "dropout": False, "mask": found.masked},
        name="fused attention",
        module=last.module,
        source=last.source,
        phase=Phase.FORWARD,
        repeat=last.repeat,
    )
