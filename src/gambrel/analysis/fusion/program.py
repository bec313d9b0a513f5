"""The dataflow of a workload: who reads what, written by whom, and how many bytes of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import msgspec

from gambrel.ops import Cost, OpView, TensorView, is_free
from gambrel.ops.base import as_read
from gambrel.workload import PERSISTENT, Op, Phase, Role, Workload

#: An op, its sizes and its cost (None: unmodelled), as `Evaluator.costs` yields them.
Priced: TypeAlias = tuple[Op, OpView, Cost | None]

#: A part of a storage: (storage, first element).
Region: TypeAlias = tuple[int, Any]

#: Stands for what lies outside the workload: the writer of weights, the reader of outputs.
WORLD: Final = -1


#: What is there before the first op runs.
_GIVEN: Final = PERSISTENT | {Role.INPUT}


class Read(msgspec.Struct, frozen=True):
    """One region that an op reads.

    Attributes:
        region: Which.
        nbytes: How much of it.
        writers: The ops whose results it sees; `WORLD` among them when it sees what was there
            before.
    """

    region: Region
    nbytes: int
    writers: tuple[int, ...]


class ProgramStep(msgspec.Struct, frozen=True):
    """An op that moves data or computes.

    Attributes:
        view: Its sizes.
        repeat: Executions.
        counted: Whether its cost is known; the bytes of other ops appear in no sum.
        eager_bytes: Read and written when it runs as a kernel of its own, one execution.
        reads: What it reads, one entry a region.
        writes: Region → bytes.
        users: Ops that read what it wrote; `WORLD` when it outlives the run. Filled as they come.
    """

    view: OpView
    repeat: int
    counted: bool
    eager_bytes: tuple[int, int]
    reads: tuple[Read, ...]
    writes: dict[Region, int]
    users: list[int] = []


@dataclass(frozen=True, slots=True)
class Program:
    """Steps by op index, in execution order (free ops have none), and the size of each storage.

    The size of a storage is where the last tensor seen in it ends; ``copies`` says how many of it
    the repeated layers of an op have between them, where more than one. ``kept`` run whoever reads
    their results.
    """

    steps: dict[int, ProgramStep]
    storage_bytes: dict[int, int]
    copies: dict[int, int] = field(default_factory=dict)
    kept: frozenset[int] = frozenset()

    def live(self) -> dict[int, ProgramStep]:
        """The steps without those whose results nobody reads."""
        alive: set[int] = set()
        for index in reversed(self.steps):
            step = self.steps[index]
            read = WORLD in step.users or not alive.isdisjoint(step.users)
            if read or not step.writes or index in self.kept:
                alive.add(index)
        return {i: s for i, s in self.steps.items() if i in alive}


def program(workload: Workload, priced: Sequence[Priced]) -> Program:
    """Reads the dataflow off a workload.

    Args:
        workload: The model.
        priced: Every op with its view and cost, free ones included, in order.
    """
    flow = _Flow(workload)
    for index, (op, view, cost) in enumerate(priced):
        if is_free(op.kind):
            flow.observe(op)
            continue
        flow.step(index, op, view, cost)
    flow.finish()
    copies = {t.storage: t.copies for t in workload.tensors if t.copies != 1}
    # Backward runs for the weights, which no op reads; a written step does not connect its layers.
    backward = (index for index, (op, _, _) in enumerate(priced) if op.phase == Phase.BACKWARD)
    kept = frozenset(backward) if workload.training else frozenset()
    return Program(flow.steps, flow.sizes, copies, kept)


class _Flow:
    """Follows the last writers of every storage along the ops."""

    def __init__(self, workload: Workload) -> None:
        self.steps: dict[int, ProgramStep] = {}
        self.sizes: dict[int, int] = {}
        self._workload = workload
        self._nbytes: dict[int, int] = {}  # by tensor
        self._given = {t.storage for t in workload.tensors if t.role in _GIVEN}
        # Storage → (op, region, bytes) since it was last written as a whole, oldest first.
        self._chains: dict[int, list[tuple[int, Region, int]]] = {}

    def observe(self, op: Op) -> None:
        """A host that waits for a value uses it; a view does not."""
        if op.kind != "view":
            for i in op.inputs:
                self._mark_chain(self._workload.tensors[i].storage)

    def step(self, index: int, op: Op, view: OpView, cost: Cost | None) -> None:
        """Takes in one op that is not free."""
        read, written = (
            self._regions(op.inputs, view.inputs),
            self._regions(op.outputs, view.outputs),
        )
        eager = (0, 0)
        if cost is not None:
            eager = (int(cost.read_bytes), int(cost.write_bytes))
            read = _read_regions(as_read(view.inputs, cost)) if cost.touched else read
            read = _touched(read, eager[0], {t.storage for t in view.outputs})
            written = _touched(written, eager[1], set())
        reads = tuple(Read(r, n, self._writers(r, n)) for r, n in read.items())
        step = ProgramStep(view, op.repeat, cost is not None, eager, reads, written)
        self.steps[index] = step
        for r in reads:
            for w in r.writers:
                if w != WORLD:
                    self.steps[w].users.append(index)
        for region, nbytes in step.writes.items():
            self._write(index, region, nbytes)

    def finish(self) -> None:
        """What outlives the run is used by the world; so is, with outputs unknown, what is left."""
        tensors = self._workload.tensors
        kept = {t.storage for t in tensors if t.role in PERSISTENT}
        kept.update(tensors[i].storage for i in self._workload.outputs)
        for storage in kept:
            self._mark_chain(storage)
        if not self._workload.outputs:
            for step in self.steps.values():
                if not step.users:
                    step.users.append(WORLD)

    def _regions(
        self, indices: tuple[int, ...], tensors: tuple[TensorView, ...]
    ) -> dict[Region, int]:
        """Region → bytes; of several views from the same element the largest."""
        found: dict[Region, int] = {}
        for i, t in zip(indices, tensors, strict=True):
            nbytes = self._nbytes.get(i)
            if nbytes is None:
                nbytes = self._nbytes[i] = int(t.nbytes)
                ahead = _bytes_before(t)
                self.sizes[t.storage] = max(ahead + nbytes, self.sizes.get(t.storage, 0))
            region = (t.storage, t.offset)
            if nbytes >= found.get(region, 0):
                found[region] = nbytes
        return found

    def _mark_chain(self, storage: int) -> None:
        for writer, _, _ in self._chains.get(storage, ()):
            self.steps[writer].users.append(WORLD)

    def _write(self, index: int, region: Region, nbytes: int) -> None:
        chain = self._chains.setdefault(region[0], [])
        if chain and nbytes >= max(n for _, _, n in chain) and region[1] == 0:
            chain.clear()  # overwritten as a whole
        chain.append((index, region, nbytes))

    def _writers(self, region: Region, nbytes: int) -> tuple[int, ...]:
        """From the last write back to one that covers the region."""
        found = []
        chain = self._chains.get(region[0], ())
        for position in range(len(chain) - 1, -1, -1):
            writer, written, amount = chain[position]
            found.append(writer)
            whole = position == 0 and region[0] not in self._given
            if amount >= nbytes and (written == region or whole):
                return tuple(found)
        return (*found, WORLD)


def _bytes_before(t: TensorView) -> int:
    """Of the storage, ahead of the tensor; 0 where captures name its place without a number."""
    if not isinstance(t.offset, int) or not t.elements:
        return 0
    return int(t.offset * t.nbytes / t.elements)


def _read_regions(tensors: tuple[TensorView, ...]) -> dict[Region, int]:
    """Region → the bytes that are looked at; regions that are only listed are left out."""
    found: dict[Region, int] = {}
    for t in tensors:
        region = (t.storage, t.offset)
        if t.nbytes > found.get(region, 0):
            found[region] = int(t.nbytes)
    return found


def _touched(found: dict[Region, int], nbytes: int, targets: set[int]) -> dict[Region, int]:
    """The bytes that the cost formula counts, shared among the regions.

    Formulas that count less than all of them touch a part of one: the rows of a table, the chosen
    experts, the places of a scatter. That one gets what the others leave.

    Args:
        found: Bytes of whole regions.
        nbytes: What the formula says.
        targets: Storages that the op writes to: of these, if any, only a part is read.
    """
    missing = nbytes - sum(found.values())
    if not missing or not found:
        return found
    among = [region for region in found if region[0] in targets] or list(found)
    partial = max(among, key=lambda region: found[region])
    return _non_negative({**found, partial: found[partial] + missing})


def _non_negative(found: dict[Region, int]) -> dict[Region, int]:
    """Takes a deficit of one region from the others, largest first."""
    deficit = -sum(n for n in found.values() if n < 0)
    result = {region: max(n, 0) for region, n in found.items()}
    for region in sorted(result, key=lambda r: -result[r]):
        taken = min(deficit, result[region])
        result[region] -= taken
        deficit -= taken
    return result
