"""The traffic of every op at every known level of a device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct

from gambrel.analysis.levels.hierarchy import Level
from gambrel.analysis.levels.products import blocked
from gambrel.analysis.levels.recycle import blocks_of
from gambrel.analysis.levels.reuse import Access, Reuse
from gambrel.dtypes import width_bytes
from gambrel.ops import Cost, OpView, TensorView
from gambrel.ops.base import as_read
from gambrel.workload import PERSISTENT, Role, Workload

#: Share of a memory that holds the data of the op. The rest goes to what the model leaves out:
#: buffers for what comes next, code and stacks, lines that crowd in the same sets. An assumption,
#: not a measurement.
USABLE: Final = 0.75

#: What lives in memory between runs, and so must be written back.
_KEPT: Final = PERSISTENT - {Role.CONSTANT}

#: What the model is given: it keeps its own memory although nothing is written back.
_GIVEN: Final = frozenset({Role.INPUT, Role.CONSTANT})

#: One executed op: what it is, how it was priced (None: unmodelled), and how often it runs.
Step: TypeAlias = tuple[OpView, Cost | None, int]


class Traffic(Struct, frozen=True, kw_only=True):
    """Bytes of one op (all its executions) at one level.

    Attributes:
        level: Where the bytes come from or go to, on the way to and from the arithmetic.
        traffic_bytes: Read and written.
    """

    level: Level
    traffic_bytes: int


def predict(
    workload: Workload, steps: Sequence[Step], hierarchy: Sequence[Level], *, warm: bool = False
) -> list[tuple[Traffic, ...]]:
    """Bytes of every op at every level whose traffic can be told.

    What a level supplies is what the next memory inside it cannot hold: its traffic needs the size
    of that memory. So a level without a known memory inside it is left out, except for the
    outermost: its traffic is then the compulsory one.

    Args:
        workload: The model.
        steps: Its ops in order.
        hierarchy: From `hierarchy_of`, outermost first.
        warm: Whether the run follows another one of the same model: what that left in the caches
            is still there. Otherwise the caches are empty, and every weight comes from memory.

    Returns:
        For each op its levels, outermost first; empty for an unmodelled op. From the outermost
        inwards the bytes never fall.
    """
    if not hierarchy:
        return [() for _ in steps]
    saved = _saved(workload, steps, [m for m in hierarchy[1:] if m.keeps], warm)
    inner = [
        _Inner(level=m, usable_bytes=_usable(hierarchy[i:]), saved=saved.get(m.name))
        for i, m in enumerate(hierarchy[1:], start=1)
    ]
    return [
        () if cost is None else _levels(hierarchy, inner, (view, cost, repeat), position)
        for position, (view, cost, repeat) in enumerate(steps)
    ]


class _Inner(msgspec.Struct, frozen=True, kw_only=True):
    """A memory, as seen from the level outside it.

    Attributes:
        level: Which one.
        usable_bytes: What one instance holds of an op.
        saved: By op, compulsory bytes that it keeps from outside; None if it keeps nothing.
    """

    level: Level
    usable_bytes: int
    saved: list[float] | None


def _usable(inwards: Sequence[Level]) -> int:
    """What one instance of the first level, with the memories inside it, holds of an op.

    Partial sums may lie in the registers while shared memory, which is smaller, only passes the
    operands on: the larger of the two counts.
    """
    first = inwards[0]
    return int(USABLE * max(m.total_bytes for m in inwards) / first.instances)


def _levels(
    hierarchy: Sequence[Level],
    inner: Sequence[_Inner],
    step: tuple[OpView, Cost, int],
    position: int,
) -> tuple[Traffic, ...]:
    view, cost, repeat = step
    compulsory = round(cost.read_bytes) + round(cost.write_bytes)
    found, least = [], 0
    if not inner:
        return (Traffic(level=hierarchy[0], traffic_bytes=compulsory * repeat),)
    parts = blocked(view)
    for level, memory in zip(hierarchy, inner, strict=False):
        nbytes = compulsory
        for part in parts:
            nbytes += max(0, part.reread_bytes(memory.usable_bytes, memory.level.instances))
        if memory.saved is not None and repeat == 1:
            nbytes -= round(memory.saved[position])
        least = max(least, nbytes)
        found.append(Traffic(level=level, traffic_bytes=least * repeat))
    return tuple(found)


def _saved(
    workload: Workload, steps: Sequence[Step], caches: Sequence[Level], warm: bool
) -> dict[str, list[float]]:
    """By cache and op: compulsory bytes that need not come from, or go to, what is outside."""
    if not caches:
        return {}
    runs, n = 2 if warm else 1, len(steps)
    kept, sizes = _kept(workload), _storage_bytes(steps)
    fixed = kept | {t.storage for t in workload.tensors if t.role in _GIVEN}
    blocks = blocks_of([view for view, _, _ in steps], sizes, fixed)
    for storage, block in blocks.items():
        sizes[block] = max(sizes[block], sizes[storage])
    model = Reuse(
        [cache.total_bytes * USABLE for cache in caches],
        ops=runs * n,
        storage_bytes=sizes,
        kept=kept,
    )
    memory = _Memory(blocks=blocks, inside=set())
    accesses = [_accesses(view, cost, memory) for view, cost, _ in steps]
    for _ in range(runs):
        for touched in accesses:
            model.step(touched)
    first = (runs - 1) * n
    found = {}
    for i, cache in enumerate(caches):
        found[cache.name] = [
            sum(a.read_bytes + a.write_bytes for a in touched)
            - model.read_bytes[i][first + position]
            - model.write_bytes[i][first + position]
            for position, touched in enumerate(accesses)
        ]
    return found


def _kept(workload: Workload) -> frozenset[int]:
    kept = {t.storage for t in workload.tensors if t.role in _KEPT}
    return frozenset(kept | {workload.tensors[i].storage for i in workload.outputs})


def _storage_bytes(steps: Sequence[Step]) -> dict[int, float]:
    sizes: dict[int, float] = {}
    for view, _, _ in steps:
        for t in (*view.inputs, *view.outputs):
            nbytes = t.elements * width_bytes(t.dtype)
            sizes[t.storage] = max(nbytes, sizes.get(t.storage, 0.0))
    return sizes


class _Memory(msgspec.Struct, frozen=True, kw_only=True):
    """Where tensors lie.

    Attributes:
        blocks: Storage → the memory that it shares with others; its own where absent.
        inside: Storages that never reach memory: results that stay within a fused kernel.
    """

    blocks: dict[int, int]
    inside: set[int]


def _accesses(view: OpView, cost: Cost | None, memory: _Memory) -> list[Access]:
    """What an op touches, by region; the sums are those of its cost."""
    if cost is not None:
        results = {t.storage for t in view.outputs}
        memory.inside.difference_update(results)
        if not cost.write_bytes:
            memory.inside.update(results)
    inputs = view.inputs if cost is None else as_read(view.inputs, cost)
    reads, writes = _regions(inputs, memory), _regions(view.outputs, memory)
    if cost is None:
        return _merged(reads, writes)
    read, written = sum(reads.values()), sum(writes.values())
    looked_up = _looked_up(view, read - cost.read_bytes)
    writes = _scaled(writes, cost.write_bytes, written)
    if looked_up is None:
        return _merged(_scaled(reads, cost.read_bytes, read), writes)
    rows = reads.pop(looked_up) - (read - cost.read_bytes)
    storage, offset = looked_up
    table = Access(storage=storage, offset=offset, read_bytes=rows, reusable=False)
    return [table, *_merged(reads, writes)]


_Region: TypeAlias = tuple[int, object]


def _regions(tensors: Sequence[TensorView], memory: _Memory) -> dict[_Region, float]:
    found: dict[_Region, float] = {}
    for t in tensors:
        if t.storage in memory.inside:
            continue
        key, nbytes = (memory.blocks.get(t.storage, t.storage), t.offset), t.nbytes
        if nbytes > found.get(key, 0):
            found[key] = nbytes
    return found


#: Kinds that read some rows or experts of their weights, and other ones next time.
_LOOK_UPS: Final = frozenset({"embedding", "gather", "grouped_matmul"})


def _looked_up(op: OpView, untouched: float) -> _Region | None:
    """The weights of which an op reads only a part; None where it reads all."""
    if untouched <= 0 or op.kind not in _LOOK_UPS:
        return None
    weights = [t for t in op.inputs if t.role == Role.WEIGHT and t.nbytes > untouched]
    largest = max(weights, key=lambda t: t.nbytes, default=None)
    return None if largest is None else (largest.storage, largest.offset)


def _scaled(regions: dict[_Region, float], part: float, whole: float) -> dict[_Region, float]:
    if not whole or part == whole:
        return regions
    return {key: nbytes * part / whole for key, nbytes in regions.items()}


def _merged(reads: dict[_Region, float], writes: dict[_Region, float]) -> list[Access]:
    return [
        Access(
            storage=key[0],
            offset=key[1],
            read_bytes=reads.get(key, 0.0),
            write_bytes=writes.get(key, 0.0),
        )
        for key in dict.fromkeys((*reads, *writes))
    ]
