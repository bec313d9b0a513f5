"""The grouping of a workload's ops into kernels, by what a runtime fuses."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

from gambrel.analysis.fusion.compiled import compiled
from gambrel.analysis.fusion.epilogue import with_epilogues
from gambrel.analysis.fusion.function import functions
from gambrel.analysis.fusion.kernel import WHOLE, Kernel
from gambrel.analysis.fusion.onchip import (
    Allowance,
    Inner,
    inner_bytes,
    inner_of,
    kept_on_chip,
    scores_of,
)
from gambrel.analysis.fusion.program import Priced, Program, program
from gambrel.analysis.fusion.traffic import Members, with_traffic
from gambrel.runtimes import Kernels
from gambrel.workload import Workload


def group(
    workload: Workload,
    priced: Sequence[Priced],
    kernels: Kernels,
    allowance: Allowance | None = None,
) -> tuple[Kernel, ...]:
    """The kernels that a runtime makes of a workload.

    Every op that is not free belongs to exactly one kernel; all but ``op`` leave out ops whose
    results nobody reads, ``function`` those that depend on nothing. The sum of the kernels' traffic
    never grows from ``op`` over ``pointwise``, ``epilogue`` and ``tiled`` to ``whole``, nor from
    ``op`` over ``function`` to ``whole``.

    Args:
        workload: The model.
        priced: Every op with its view and cost, at integer sizes, in order.
        kernels: What the runtime fuses.
        allowance: On-chip memory between the kernels of ``tiled``; None keeps nothing there.

    Returns:
        Kernels in an order in which they can run.
    """
    return Grouping(workload, priced).kernels(kernels, allowance)


class Formed(NamedTuple):
    """Kernels as they are formed; of those with epilogues also what passes between them."""

    kernels: tuple[Kernel, ...]
    inner: tuple[Inner, ...] = ()
    scores: frozenset[int] = frozenset()


class Grouping:
    """A workload's dataflow, from which the kernels of any runtime on any device are formed.

    Args:
        workload: The model.
        priced: Every op with its view and cost, at integer sizes, in order.
    """

    def __init__(self, workload: Workload, priced: Sequence[Priced]) -> None:
        self._flow = program(workload, priced)
        self._known: dict[Kernels, Formed] = {}

    def kernels(self, how: Kernels, allowance: Allowance | None = None) -> tuple[Kernel, ...]:
        """The kernels; see `group`."""
        found = self.formed(how)
        if how is Kernels.TILED and allowance is not None:
            return kept_on_chip(found.kernels, found.inner, found.scores, allowance)
        return found.kernels

    def formed(self, how: Kernels) -> Formed:
        """The kernels before on-chip memory keeps anything between them."""
        if not self._flow.steps:
            return Formed(kernels=())
        before = Kernels.EPILOGUE if how is Kernels.TILED else how
        if before not in self._known:
            kernels = self._formed(before)
            if before is Kernels.EPILOGUE:
                inner = tuple(inner_of(kernel, self._flow) for kernel in kernels)
                formed = Formed(kernels=kernels, inner=inner, scores=scores_of(self._flow))
            else:
                formed = Formed(kernels=kernels)
            self._known[before] = formed
        return self._known[before]

    @cached_property
    def largest_inner_bytes(self) -> int:
        """Intermediate bytes of the kernel with most: more on-chip memory keeps nothing more."""
        found = self.formed(Kernels.EPILOGUE)
        pairs = zip(found.kernels, found.inner, strict=True)
        return max((inner_bytes(kernel, own) for kernel, own in pairs), default=0)

    def inner_bytes(self, kernel: Kernel) -> int:
        """Of one of the kernels, bytes of one execution that pass from kernel to kernel."""
        return inner_bytes(kernel, inner_of(kernel, self._flow))

    def _formed(self, how: Kernels) -> tuple[Kernel, ...]:
        if how is Kernels.POINTWISE:
            return self._compiled[1]
        if how is Kernels.EPILOGUE:
            return with_traffic(with_epilogues(self._compiled[0], self._flow), self._flow)
        if how is Kernels.FUNCTION:
            return with_traffic(functions(self._flow), self._flow)
        return _op(self._flow) if how is Kernels.OP else _whole(self._flow)

    @cached_property
    def _compiled(self) -> tuple[list[Members], tuple[Kernel, ...]]:
        return _grouped(self._flow)


def _op(flow: Program) -> tuple[Kernel, ...]:
    alone = [Members(ops=(i,), kind=step.view.kind) for i, step in flow.steps.items()]
    return with_traffic(alone, flow)


def _whole(flow: Program) -> tuple[Kernel, ...]:
    live = tuple(flow.live())
    return with_traffic([Members(ops=live, kind=WHOLE)], flow) if live else ()


def _grouped(flow: Program) -> tuple[list[Members], tuple[Kernel, ...]]:
    """As a compiler forms them; without recomputation where that moves more than single ops do."""
    groups = compiled(flow)
    kernels = with_traffic(groups, flow)
    alone = sum(step.repeat * sum(step.eager_bytes) for step in flow.steps.values())
    if sum(k.traffic_bytes for k in kernels) > alone:
        groups = compiled(flow, recompute=False)
        kernels = with_traffic(groups, flow)
    return groups, kernels
