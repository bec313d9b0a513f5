"""A workload at sizes in a number format: what its cost tables under any runtime share."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import replace

from gambrel.analysis.compulsory import Compulsory, compulsory, weights_bytes
from gambrel.analysis.evaluate import Evaluator
from gambrel.analysis.host import split
from gambrel.analysis.plan import KernelPlan, has_blocks, in_mxfp4
from gambrel.analysis.traffic import OffChip
from gambrel.ops import Cost
from gambrel.ops.attention import SPLIT
from gambrel.ops.base import Engine
from gambrel.ops.scan import DELTA_RULE
from gambrel.runtimes import HostOps, Kernels
from gambrel.workload import Op, Workload

if TYPE_CHECKING:  # fusion is loaded where kernels fuse
    from gambrel.analysis.estimate.engine_work import EngineTable
    from gambrel.analysis.fusion import Grouping
    from gambrel.analysis.fusion.program import Priced
    from gambrel.analysis.fusion.spans import Span

#: Ops that run their steps one after another: without a persistent kernel each step is a launch.
STEPPED: Final = frozenset({"recurrent", "recurrent_backward"})
FP32: Final = (Engine.MATRIX, "fp32")


class SizedWorkload:
    """A workload at sizes in a number format: what its tables under any runtime share.

    Args:
        workload: The model.
        evaluator: Bound to sizes and a precision.
        span: Kernels at many sizes; None where each combination of sizes forms its own.
    """

    def __init__(self, workload: Workload, evaluator: Evaluator, span: Span | None = None) -> None:
        self.workload = workload
        self.priced: tuple[Priced, ...] = evaluator.priced
        self.alike = evaluator.alike
        self._evaluator = evaluator
        self._span = span
        self._compulsory: dict[int | None, Compulsory] = {}
        self._needed: dict[KernelPlan, KernelPlan] = {}
        #: Costs of ops in kernels before their traffic, by how their formats change, then by op.
        self.unmoved: dict[Any, dict[int, Cost]] = {}
        #: What engines run, by items and kernels: the traffic that on-chip memory leaves is not
        #: looked at.
        self.engines: dict[Any, EngineTable] = {}

    @cached_property
    def grouping(self) -> Grouping:
        """The dataflow, from which kernels are formed."""
        from gambrel.analysis.fusion import Grouping

        if self._span is not None:
            return self._span.at(self._evaluator.value(self._span.size))
        return Grouping(self.workload, self.priced)

    def compulsory(self, resident_bytes: int | None) -> Compulsory:
        """What no runtime can avoid."""
        if resident_bytes not in self._compulsory:
            found = compulsory(self.workload, self._evaluator, resident_bytes)
            self._compulsory[resident_bytes] = found
        return self._compulsory[resident_bytes]

    def off_chip(self, resident_bytes: int | None, without: AbstractSet[int]) -> OffChip:
        """What crosses the link of a device without memory that does not run some of the ops."""
        used = {
            t.storage
            for i, (_, view, _) in enumerate(self.priced)
            if i not in without
            for t in view.inputs
        }
        held = weights_bytes(self.workload, self._evaluator, used)
        return OffChip(self.workload, held, resident_bytes)

    def left_to_host(self, rule: HostOps) -> list[Op]:
        """Ops that a compiler does not take, of those with a formula."""
        left = split(self.priced, rule).ops
        return [self.priced[i][0] for i in sorted(left) if self.priced[i][2] is not None]

    def needed(self, plan: KernelPlan) -> KernelPlan:
        """The plan without what makes no difference to this workload: more devices share a table.

        Neither does more on-chip memory than is of use.
        """
        if self._span is not None:
            return plan
        if plan not in self._needed:
            self._needed[plan] = self._without_idle(plan)
        return self._needed[plan]

    def _without_idle(self, plan: KernelPlan) -> KernelPlan:
        uses = self._uses
        plan = replace(
            plan,
            tf32=plan.tf32 and uses.fp32_convolutions,
            persistent=plan.persistent and uses.steps,
            int8_blocks=plan.int8_blocks and uses.blocks,
            mxfp4=plan.mxfp4 if uses.mxfp4 else None,
            split_attention=plan.split_attention and uses.attention,
            fused_delta_rule=plan.fused_delta_rule and uses.delta_rule,
        )
        allowance = plan.allowance
        if allowance is None or plan.kernels is not Kernels.TILED:
            return plan
        most = min(allowance.group_bytes, self.grouping.largest_inner_bytes)
        return replace(plan, allowance=replace(allowance, group_bytes=most))

    @cached_property
    def _uses(self) -> _Uses:
        """What of a plan the ops have a use for."""
        rows = [(op.kind, view, cost) for op, view, cost in self.priced if cost is not None]
        return _Uses(
            fp32_convolutions=any(
                kind.startswith("convolution") and FP32 in cost.work for kind, _, cost in rows
            ),
            steps=any(kind in STEPPED for kind, _, _ in rows),
            blocks=any(has_blocks(view) for _, view, _ in rows),
            mxfp4=any(in_mxfp4(view) for _, view, _ in rows),
            attention=any(kind in SPLIT for kind, _, _ in rows),
            delta_rule=any(kind == DELTA_RULE for kind, _, _ in rows),
        )


class _Uses(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a workload has ops that rules of a runtime are about."""

    fp32_convolutions: bool
    steps: bool
    blocks: bool
    mxfp4: bool
    attention: bool
    delta_rule: bool
