"""The cost table: what a workload asks for, op by op, under a runtime's kernels.

Equal ops share an *item*, so that a formula, a roof and a constant are asked once for all of them.
A table is made at given sizes in a given precision; sizes may be arrays of one value per point
where every op is a kernel of its own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
from msgspec.structs import replace

from gambrel.analysis.compulsory import SolPart
from gambrel.analysis.estimate.batches import Batches
from gambrel.analysis.estimate.engine_work import EngineTable, engine_table
from gambrel.analysis.estimate.stream_work import StreamWork, stream_work
from gambrel.analysis.estimate.tiled_work import TiledTable, tiled_table
from gambrel.analysis.host import split
from gambrel.analysis.plan import KernelPlan, has_blocks, in_mxfp4, rounded
from gambrel.analysis.sized import FP32, STEPPED, SizedWorkload
from gambrel.analysis.table_sums import TableSums, sums_of
from gambrel.ops import Cost, OpView, is_free
from gambrel.ops.attention import SPLIT, split_scores
from gambrel.ops.base import Engine, Size, distinct_bytes, minimum
from gambrel.ops.scan import DELTA_RULE
from gambrel.roofline import maximum
from gambrel.runtimes import Kernels, UnitTiling
from gambrel.workload import Op, Role

if TYPE_CHECKING:  # fusion is loaded where kernels fuse
    from gambrel.analysis.columns import TableColumns
    from gambrel.analysis.fusion import Grouping, Kernel

#: Launches that the host time of an op is worth in eager mode, where it is not one: attention
#: makes its masks, chooses a kernel and reshapes its operands. Two networks on two machines of
#: KernelBench (problems 28 and 32 of level 3) took 5, 6, 7 and 11; the least is counted.
DISPATCHES: Final = {"attention": 5}
#: Kinds of op whose weights may be in mxfp4, as `KernelPlan.mxfp4` orders them.
_GEMMS: Final = ("matmul", "grouped_matmul")
_TF32 = (Engine.MATRIX, "tf32")


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """One op, or equal ops, as the runtime's kernels run it.

    Attributes:
        view: Its sizes.
        cost: Of one execution, with the traffic that the kernels leave.
        count: Executions in all.
        launches: Kernel launches for one execution; within a fused kernel the first op pays them.
        dispatches: Of these, what the host hands over one by one; a library launches the steps of
            a recurrence by itself.
        prefetched_bytes: Of the bytes read, those that the runtime loads ahead of the kernel.
        passed_bytes: Activations that pass through the on-chip memory of a device with no other;
            None for every other device.
        host: The compiler leaves it to the host: it takes no time of the device, and how long it
            takes there is not known.
    """

    view: OpView
    cost: Cost
    count: int
    launches: float = 1
    dispatches: float = 1
    prefetched_bytes: Size = 0
    passed_bytes: Size | None = None
    host: bool = False


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where an op of the workload stands in the table.

    Attributes:
        op: Of the workload.
        view: Its sizes.
        item: Index of its item; None for an op without a formula.
        sol_bytes: Compulsory bytes that this op is the first to touch, all executions.
    """

    op: Op
    view: OpView
    item: int | None
    sol_bytes: Size = 0


Made = TypeVar("Made")


@dataclass(frozen=True, kw_only=True)  # no slots: sums are kept
class CostTable:
    """What the model asks for.

    Attributes:
        places: Every op that is not free, in order.
        items: Distinct ops.
        kernels: Items that share a kernel, by index.
        sol_parts: What no runtime can avoid, for each part whose passes depend on each other.
        free: Number of free ops.
        kernel_count: Launches of a run.
        known_bytes: Bytes of the ops with a formula, each as a kernel of its own.
        unknown_bytes: Bytes of the operands of those without.
        tiling: How the compiler fills the units of an NPU.
        bulk: Whether many devices will follow.
        engines: Of tables of the same workload in the same format, what engines run.
        shared: What follows from the items alone, for all tables that have them.
    """

    places: tuple[Place, ...]
    items: tuple[Item, ...]
    kernels: tuple[tuple[int, ...], ...]
    sol_parts: tuple[SolPart, ...]
    free: int
    kernel_count: int
    known_bytes: Size
    unknown_bytes: Size
    tiling: UnitTiling
    bulk: bool = False
    engines: dict[Any, EngineTable] = field(default_factory=dict, repr=False, compare=False)
    shared: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def sums(self) -> TableSums:
        """Work and traffic of a run, at one point."""
        return self.once("sums", lambda: sums_of(self.items))

    @cached_property
    def most_rows(self) -> Size:
        """The most rows that a matrix multiplication has; 0 without one."""
        return max((i.view.size("m") for i in self.items if i.view.kind == "matmul"), default=0)

    @cached_property
    def queue(self) -> tuple[tuple[int, tuple[tuple[int, float], ...]], ...]:
        """What the host hands over, in order: passes, and of each the items and their launches."""
        held = ((p.op.repeat, p.item) for p in self.places if p.item is not None)
        return tuple(
            (times, tuple((i, self.items[i].dispatches) for _, i in passed))
            for times, passed in groupby(held, key=lambda one: one[0])
        )

    @cached_property
    def batches(self) -> Batches:
        """Items that differ in numbers only, together; none unless many devices follow."""
        ops = ((item.view, item.cost) for item in self.items if self.bulk)
        return self.once("batches", lambda: Batches(list(ops)))

    @cached_property
    def columns(self) -> TableColumns:
        """Work and traffic of the items as arrays, made once for all devices."""
        from gambrel.analysis.columns import table_columns

        return self.once("columns", lambda: table_columns(self))

    def with_tiling(self, tiling: UnitTiling) -> CostTable:
        """The same under a compiler that fills units otherwise: it has the same items."""
        return dataclasses.replace(self, tiling=tiling)

    def once(self, name: str, make: Callable[[], Made]) -> Made:
        """What is made at the first call alone, for all tables with these items."""
        if name not in self.shared:
            self.shared[name] = make()
        made: Made = self.shared[name]
        return made

    @cached_property
    def tiled(self) -> TiledTable:
        """The same as compilers for NPUs see it, made once for all devices."""
        return tiled_table(self)

    @cached_property
    def engine(self) -> EngineTable:
        """The same as engines run it, made once for all devices."""
        if not self.bulk:
            return engine_table(self)
        items = tuple((id(i.view), i.count, tuple(i.cost.work.items())) for i in self.items)
        key = items, self.kernels, tuple(p.item for p in self.places)
        if key not in self.engines:  # tables keep the views, and so their ids
            self.engines[key] = engine_table(self)
        return self.engines[key]

    @cached_property
    def stream(self) -> StreamWork:
        """The same as chips that stream frames see it."""
        return stream_work(self)

    @property
    def unmodelled(self) -> list[Op]:
        """Ops without a formula."""
        return [place.op for place in self.places if place.item is None]

    @cached_property
    def on_host(self) -> list[Op]:
        """Ops that the compiler leaves to the host."""
        held = (p for p in self.places if p.item is not None)
        return [p.op for p in held if self.items[p.item or 0].host]


def cost_table(asked: SizedWorkload, plan: KernelPlan, *, bulk: bool = False) -> CostTable:
    """Makes the table.

    Args:
        asked: The workload, priced.
        plan: What the runtime makes of it.
        bulk: Prepare for many devices.
    """
    builder = _Builder(asked, plan)
    if plan.kernels is Kernels.OP:
        builder.alone()
    else:
        builder.fused(asked.grouping.kernels(plan.kernels, plan.allowance), asked.grouping)
    return builder.table(bulk=bulk)


class _Builder:
    """Collects items and places in one pass."""

    def __init__(self, asked: SizedWorkload, plan: KernelPlan) -> None:
        self._plan = plan
        self._alike = asked.alike
        self._priced = asked.priced
        self._least = asked.compulsory(plan.resident_bytes)
        self._engines = asked.engines
        formats = plan.int8_blocks, plan.mxfp4, plan.tf32, plan.split_attention
        self._unmoved = asked.unmoved.setdefault(formats, {})
        self._split = split(asked.priced, plan.host_ops)
        self._off_chip = self._least.off_chip
        cached = plan.resident_bytes if plan.cached_bytes is None else plan.cached_bytes
        if self._off_chip is not None and (self._split.ops or cached != plan.resident_bytes):
            self._off_chip = asked.off_chip(cached, self._split.ops)
        self._outputs = {asked.workload.tensors[i].storage for i in asked.workload.outputs}
        self._index: dict[Any, int] = {}
        self._items: list[list[Any]] = []  # [Item, count]
        self._kernels: list[tuple[int, ...]] = []
        self._item_of: dict[int, int] = {}
        self._passing: dict[int, Cost] = {}

    def alone(self) -> None:
        """Every op is a kernel of its own."""
        for index, (op, view, found) in enumerate(self._priced):
            if found is None or is_free(op.kind):
                continue
            if index in self._split.ops:
                self._add_host(index)
                continue
            used = self._run(op, view, found)
            key: tuple[Any, ...] = (self._alike[index],)
            if self._off_chip is not None:  # equal ops differ in whether their result leaves
                used = self._off_chip(view, found)
            if self._off_chip is not None or self._split.ops:
                used = self._crossing(index, view, used)
                key = (*key, _key(used.read_bytes), _key(used.write_bytes))
            launched = _steps(view) if op.kind in STEPPED and not self._plan.persistent else 1
            known = self._index.setdefault(key, len(self._items))
            if known == len(self._items):
                given = DISPATCHES.get(op.kind, 1)
                seen = self._seen(view)
                item = Item(view=seen, cost=used, count=0, launches=launched, dispatches=given)
                self._items.append([item, 0])
            self._items[known][1] += op.repeat
            self._item_of[index] = known

    def fused(self, kernels: Sequence[Kernel], grouping: Grouping) -> None:
        """Ops share kernels; equal kernels share their items."""
        from gambrel.analysis.fusion import fused_costs, launches

        known = {i: cost for i, (_, _, cost) in enumerate(self._priced) if cost}
        kept = self._plan.allowance
        if self._off_chip is not None and kept is not None:
            none = replace(kept, group_bytes=0)
            self._passing = fused_costs(grouping.kernels(self._plan.kernels, none), self._priced)
        starts = launches(kernels)
        ran = set()
        for kernel in kernels:
            members = [i for i in kernel.ops if i in known and not is_free(self._priced[i][0].kind)]
            ran.update(members)
            own = [i for i in members if i not in self._split.ops]
            if own:
                if own[0] != members[0]:
                    starts[own[0]] = starts.get(members[0], 0)
                self._add_kernel(own, [self._in_kernel(i, kernel) for i in own], starts)
            for i in self._split.ops.intersection(members):
                self._add_host(i)
        for i in known.keys() - ran:  # dead code costs nothing
            op, view, _ = self._priced[i]
            if not is_free(op.kind):
                nothing = self._run(op, view, Cost(read_bytes=0, write_bytes=0))
                self._add_kernel([i], [nothing], starts)

    def _in_kernel(self, index: int, kernel: Kernel) -> Cost:
        """The cost of one execution of an op with the traffic that its kernel leaves."""
        op, view, plain = self._priced[index]
        alone = self._unmoved.get(index)
        if alone is None:
            from gambrel.analysis.fusion import cost_within

            whole = cost_within(op, plain or Cost(), 0, 0)
            alone = self._unmoved[index] = self._run(op, view, _one_of(whole, op.repeat))
        read, written = kernel.op_read_bytes.get(index, 0), kernel.op_write_bytes.get(index, 0)
        if op.repeat != 1:
            read, written = read // op.repeat, written // op.repeat
        return replace(
            alone, read_bytes=alone.read_bytes + read, write_bytes=alone.write_bytes + written
        )

    def _add_kernel(
        self, members: list[int], costs: Sequence[Cost], starts: Mapping[int, int]
    ) -> None:
        found = []
        for i, used in zip(members, costs, strict=True):
            op, view, plain = self._priced[i]
            if self._off_chip is not None and plain is not None:
                crossed = self._off_chip(view, plain)
                used = replace(used, read_bytes=crossed.read_bytes, write_bytes=crossed.write_bytes)
            used = self._crossing(i, view, used)
            given = launched = starts.get(i, 0) / op.repeat
            if launched and op.kind in STEPPED and not self._plan.persistent:
                launched *= _steps(view)
            ahead = _prefetched(view, used) if self._plan.prefetch else 0
            found.append((op, view, used, launched, given, ahead, self._passed(i)))
        together = tuple(
            (
                self._alike[i],
                *map(_key, (c.read_bytes, c.write_bytes, c.link_bytes, passed)),
                n,
                op.repeat,
            )
            for i, (op, _, c, n, *_, passed) in zip(members, found, strict=True)
        )
        known = self._index.get(together)
        if known is None:
            known = len(self._items)
            self._index[together] = known
            for _, view, used, launched, given, ahead, passed in found:
                item = Item(
                    view=self._seen(view),
                    cost=used,
                    count=0,
                    launches=launched,
                    dispatches=given,
                    prefetched_bytes=ahead,
                    passed_bytes=passed,
                )
                self._items.append([item, 0])
            if len(found) > 1:
                self._kernels.append(tuple(range(known, known + len(found))))
        for offset, (i, (op, *_)) in enumerate(zip(members, found, strict=True)):
            self._items[known + offset][1] += op.repeat
            self._item_of[i] = known + offset

    def _passed(self, index: int) -> Size | None:
        """Activations of one execution that pass through the memory of a device with no other."""
        if index not in self._passing:
            return None
        op, view, _ = self._priced[index]
        used = _one_of(self._passing[index], op.repeat)
        return used.read_bytes - _prefetched(view, used) + used.write_bytes

    def _add_host(self, index: int) -> None:
        """An op that runs on the host: its work counts, the device has nothing to do with it."""
        op, view, found = self._priced[index]
        if found is None:
            return
        known = self._index.setdefault(("host", self._alike[index]), len(self._items))
        if known == len(self._items):
            used = replace(found, read_bytes=0, write_bytes=0, link_bytes=0, network_bytes=0)
            item = Item(view=view, cost=used, count=0, launches=0, dispatches=0, host=True)
            self._items.append([item, 0])
        self._items[known][1] += op.repeat
        self._item_of[index] = known

    def _crossing(self, index: int, view: OpView, used: Cost) -> Cost:
        """The cost with what goes to ops on the host and comes from them, over the host link.

        A device without memory of its own pays in its traffic, which is what crosses that link.
        """
        if index not in self._split.sent and index not in self._split.fetched:
            return used
        got = self._split.fetched_bytes(index, view)
        if self._off_chip is not None:
            sent = self._split.sent_bytes(index, view, self._outputs)
            read, written = used.read_bytes + got, used.write_bytes + sent
            return replace(used, read_bytes=read, write_bytes=written)
        sent = self._split.sent_bytes(index, view)
        return replace(
            used,
            read_bytes=maximum(used.read_bytes, got),
            write_bytes=maximum(used.write_bytes, sent),
            link_bytes=used.link_bytes + got + sent,
        )

    def _run(self, op: Op, view: OpView, found: Cost) -> Cost:
        """The cost in the formats that the runtime computes in."""
        if self._plan.int8_blocks and has_blocks(view):
            return replace(found, work=rounded(found.work, "int8"))
        if to := self._rounds(view):
            return replace(found, work=rounded(found.work, to))
        if self._plan.split_attention and op.kind in SPLIT:
            return _with_scores(found, view)
        if not self._plan.tf32 or not op.kind.startswith("convolution"):
            return found
        work = {_TF32 if key == FP32 else key: n for key, n in found.work.items()}
        return replace(found, work=work)

    def _rounds(self, view: OpView) -> str:
        """The format that activations are rounded to for weights in mxfp4; empty: none."""
        if self._plan.mxfp4 is None or view.kind not in _GEMMS or not in_mxfp4(view):
            return ""
        return self._plan.mxfp4[_GEMMS.index(view.kind)]

    def _seen(self, view: OpView) -> OpView:
        """An op as what predicts it sees it: what is other kernels than usual says so."""
        if self._plan.split_attention and view.kind in SPLIT:
            return replace(view, attrs={**view.attrs, "split": True})
        if to := self._rounds(view):
            return replace(view, attrs={**view.attrs, "compute_dtype": to})
        if self._plan.fused_delta_rule and view.kind == DELTA_RULE:
            return replace(view, attrs={**view.attrs, "fused": True})
        return view

    def table(self, *, bulk: bool) -> CostTable:
        """The finished table."""
        items = tuple(replace(item, count=count) for item, count in self._items)
        least = self._least
        return CostTable(
            places=tuple(
                Place(op=op, view=view, item=self._item_of.get(i), sol_bytes=least.sol_bytes[i])
                for i, (op, view, _) in enumerate(self._priced)
                if not is_free(op.kind)
            ),
            items=items,
            kernels=tuple(self._kernels),
            sol_parts=least.parts,
            free=least.free,
            kernel_count=_whole(sum(item.launches * item.count for item in items)),
            known_bytes=least.known_bytes,
            unknown_bytes=least.unknown_bytes,
            bulk=bulk,
            tiling=self._plan.tiling,
            engines=self._engines,
        )


def _key(size: Size) -> Any:
    """A size as a part of a key; an array over points cannot be one, its bytes can."""
    if isinstance(size, (int, float)):
        return size
    return size.tobytes() if hasattr(size, "tobytes") else size


def _prefetched(view: OpView, cost: Cost) -> Size:
    """Bytes of weights among what an op reads."""
    weights = tuple(t for t in view.inputs if t.role in (Role.WEIGHT, Role.BUFFER))
    return minimum(distinct_bytes(weights), cost.read_bytes)


def _steps(view: OpView) -> Size:
    """Dependent steps of a recurrent op: time steps of every layer (directions run together)."""
    return view.size("seq", 1) * view.size("layers", 1)


def _with_scores(cost: Cost, view: OpView) -> Cost:
    """The cost of an attention whose scores pass through memory."""
    scores = split_scores(view)
    read = scores.products + scores.softmax - scores.written
    return replace(
        cost, read_bytes=cost.read_bytes + read, write_bytes=cost.write_bytes + scores.written
    )


def _one_of(cost: Cost, count: int) -> Cost:
    """The cost of one of so many equal executions."""
    if count == 1:
        return cost
    return replace(
        cost,
        work={key: n // count for key, n in cost.work.items()},
        read_bytes=cost.read_bytes // count,
        write_bytes=cost.write_bytes // count,
        link_bytes=cost.link_bytes // count,
        network_bytes=cost.network_bytes // count,
    )


def _whole(count: Any) -> Any:
    """A count of kernels; of an array of sizes one each, as it is."""
    return round(count) if isinstance(count, (int, float)) else count
