"""Activation checkpointing: keep what crosses blocks, compute the rest again in backward."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass

import msgspec

from gambrel.errors import InputError
from gambrel.workload import Op, Phase, Role, Tensor, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpointed:
    """A training step that recomputes.

    Attributes:
        workload: With the ops that are done again, as part of backward.
        recomputed: Their indices.
        blocks: Number of blocks.
    """

    workload: Workload
    recomputed: frozenset[int]
    blocks: int


def checkpointed(workload: Workload, blocks: str | None = None) -> Checkpointed:
    """The step with activation checkpointing by block.

    Tensors that one block hands to another stay. What only the block itself and its backward read
    is freed after forward; before backward first reads any of it, the block's forward ops run
    again, as many of them as the tensors that are read depend on (frameworks stop early in the
    same way). Buffers (running statistics) are taken as unchanged by it.

    Args:
        workload: A training step.
        blocks: Module paths of blocks, ``*`` for one part of a path; None takes the outermost
            numbered modules, e.g. ``layers.0``.

    Raises:
        InputError: No backward pass, or no such blocks.
    """
    if not any(op.phase is Phase.BACKWARD for op in workload.ops):
        raise InputError(
            f"{workload.name} has no backward pass: checkpointing is for training (--train)."
        )
    members = _members(workload, blocks)
    if not members:
        named = f"no module matches {blocks!r}" if blocks else "no module path holds a number"
        raise InputError(
            f"{workload.name}: {named}; name the blocks by path, '*' for one part, "
            "e.g. 'encoder.layer.*'."
        )
    return _Rewriter(workload, _Flow(workload, members)).rewrite(members)


def _members(workload: Workload, blocks: str | None) -> dict[str, list[int]]:
    """Block → indices of its forward ops."""
    pattern = re.compile(_expression(blocks))
    found: dict[str, list[int]] = defaultdict(list)
    for index, op in enumerate(workload.ops):
        match = pattern.match(op.module) if op.phase is Phase.FORWARD else None
        if match:
            found[match.group(0)].append(index)
    return found


def _expression(blocks: str | None) -> str:
    if blocks is None:
        return r"(?:[^.\d]+\.)*[^.]*\d+(?=\.|$)"
    parts = (r"[^.]+" if part == "*" else re.escape(part) for part in blocks.split("."))
    return r"\.".join(parts) + r"(?=\.|$)"


class _Flow:
    """Who touches which storage: found once for all blocks."""

    def __init__(self, workload: Workload, members: dict[str, list[int]]) -> None:
        self._tensors = workload.tensors
        block_of = {index: name for name, found in members.items() for index in found}
        #: Storage → the one block whose forward ops touch it; empty when others do as well.
        self.block: dict[int, str] = {}
        #: Storage → first op of backward or optimizer that reads it.
        self.reader: dict[int, int] = {}
        for index, op in enumerate(workload.ops):
            if op.phase is Phase.FORWARD:
                for storage in self.storages((*op.inputs, *op.outputs)):
                    name = block_of.get(index, "")
                    self.block[storage] = name if self.block.get(storage, name) == name else ""
            else:
                for storage in self.storages(op.inputs):
                    self.reader.setdefault(storage, index)
        held = {t.storage for t in self._tensors if t.role not in (Role.ACTIVATION, Role.OUTPUT)}
        held |= self.storages(workload.outputs)
        self.block.update(dict.fromkeys(held, ""))
        self.held = held

    def storages(self, indices: tuple[int, ...]) -> set[int]:
        """The storages behind tensors."""
        return {self._tensors[i].storage for i in indices}


class _Rewriter:
    """Builds the new op order; tensors of what is computed again are added at the end."""

    def __init__(self, workload: Workload, flow: _Flow) -> None:
        self._workload = workload
        self._flow = flow
        self._tensors: list[Tensor] = list(workload.tensors)
        self._storages = 1 + max((t.storage for t in workload.tensors), default=-1)
        # Storage → where it is computed again: what backward then reads, and by-products (the
        # block's output, which its neighbours still have).
        self._copies: dict[int, int] = {}
        self._by_products: dict[int, int] = {}
        self._everything: dict[int, int] = {}
        self._moved: dict[tuple[int, int], int] = {}

    def rewrite(self, members: dict[str, list[int]]) -> Checkpointed:
        again: dict[int, list[int]] = {}
        for name, positions in members.items():
            kept, reader = self._slice(name, positions)
            if kept:
                again.setdefault(reader, []).extend(kept)
        self._everything = self._copies | self._by_products
        ops: list[Op] = []
        recomputed: set[int] = set()
        for index, op in enumerate(self._workload.ops):
            for source in again.get(index, ()):
                recomputed.add(len(ops))
                ops.append(self._repeat(self._workload.ops[source]))
            ops.append(op if op.phase is Phase.FORWARD else self._redirect(op, self._copies))
        return Checkpointed(
            workload=msgspec.structs.replace(
                self._workload, tensors=tuple(self._tensors), ops=tuple(ops)
            ),
            recomputed=frozenset(recomputed),
            blocks=len(members),
        )

    def _slice(self, name: str, positions: list[int]) -> tuple[list[int], int]:
        """The forward ops on which depends what backward reads of a block; its first reader."""
        flow, ops = self._flow, self._workload.ops
        inner = {s for p in positions for s in flow.storages(ops[p].outputs) if self._is(s, name)}
        needed = {s for s in inner if s in flow.reader}
        reader = min((flow.reader[s] for s in needed), default=-1)
        kept: list[int] = []
        for position in reversed(positions):
            op = ops[position]
            if flow.storages(op.outputs) & needed:
                kept.append(position)
                needed |= flow.storages(op.inputs) & inner
        for position in kept:
            for storage in flow.storages(ops[position].outputs) - flow.held:
                where = self._copies if storage in inner else self._by_products
                where.setdefault(storage, self._new_storage())
        return kept[::-1], reader

    def _is(self, storage: int, name: str) -> bool:
        return self._flow.block.get(storage) == name

    def _new_storage(self) -> int:
        self._storages += 1
        return self._storages - 1

    def _repeat(self, op: Op) -> Op:
        """The op once more: it reads what was computed again where there is such."""
        return msgspec.structs.replace(
            self._redirect(op, self._everything),
            name=f"{op.name or op.kind} again",
            phase=Phase.BACKWARD,
        )

    def _redirect(self, op: Op, where: dict[int, int]) -> Op:
        return msgspec.structs.replace(
            op,
            inputs=tuple(self._tensor(i, where) for i in op.inputs),
            outputs=tuple(self._tensor(i, where) for i in op.outputs),
        )

    def _tensor(self, index: int, where: dict[int, int]) -> int:
        tensor = self._workload.tensors[index]
        storage = where.get(tensor.storage)
        if storage is None:
            return index
        key = (index, storage)
        if key not in self._moved:
            self._moved[key] = len(self._tensors)
            self._tensors.append(
                msgspec.structs.replace(tensor, storage=storage, role=Role.ACTIVATION)
            )
        return self._moved[key]
