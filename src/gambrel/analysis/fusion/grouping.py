"""The grouping of a workload's ops into kernels, by what a runtime fuses."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from gambrel.analysis.fusion.compiled import compiled
from gambrel.analysis.fusion.epilogue import with_epilogues
from gambrel.analysis.fusion.kernel import WHOLE, Kernel
from gambrel.analysis.fusion.onchip import Allowance, kept_on_chip
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
    results nobody reads. The sum of the kernels' traffic never grows from ``op`` over
    ``pointwise``, ``epilogue`` and ``tiled`` to ``whole``.

    Args:
        workload: The model.
        priced: Every op with its view and cost, at integer sizes, in order.
        kernels: What the runtime fuses.
        allowance: On-chip memory between the kernels of ``tiled``; None keeps nothing there.

    Returns:
        Kernels in an order in which they can run.
    """
    flow, known = _kept(workload, priced)
    if not flow.steps:
        return ()
    before = Kernels.EPILOGUE if kernels is Kernels.TILED else kernels
    if before not in known:
        known[before] = _GROUPINGS[before](flow)
    if kernels is Kernels.TILED and allowance is not None:
        return kept_on_chip(known[before], flow, allowance)
    return known[before]


#: Costs that were grouped last, their dataflow and their kernels: devices differ in their on-chip
#: memory only, and are asked one after another.
_recent: deque[tuple[Sequence[Priced], Program, dict[Kernels, tuple[Kernel, ...]]]] = deque(
    maxlen=8
)


def _kept(
    workload: Workload, priced: Sequence[Priced]
) -> tuple[Program, dict[Kernels, tuple[Kernel, ...]]]:
    for costs, flow, known in _recent:
        if costs is priced:
            return flow, known
    _recent.append((priced, program(workload, priced), {}))
    return _recent[-1][1:]


def _op(flow: Program) -> tuple[Kernel, ...]:
    alone = [Members(ops=(i,), kind=step.view.kind) for i, step in flow.steps.items()]
    return with_traffic(alone, flow)


def _pointwise(flow: Program) -> tuple[Kernel, ...]:
    return _grouped(flow)[1]


def _epilogue(flow: Program) -> tuple[Kernel, ...]:
    return with_traffic(with_epilogues(_grouped(flow)[0], flow), flow)


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


_GROUPINGS: Final[dict[Kernels, Callable[[Program], tuple[Kernel, ...]]]] = {
    Kernels.OP: _op,
    Kernels.POINTWISE: _pointwise,
    Kernels.EPILOGUE: _epilogue,
    Kernels.WHOLE: _whole,
}
