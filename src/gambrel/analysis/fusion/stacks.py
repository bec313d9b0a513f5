"""The grouping of a workload's ops into kernels, by software stack."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from gambrel.analysis.evaluate import Evaluator
from gambrel.analysis.fusion.compiled import compiled
from gambrel.analysis.fusion.epilogue import with_epilogues
from gambrel.analysis.fusion.kernel import WHOLE, Kernel, Stack, parse_stack
from gambrel.analysis.fusion.program import Priced, Program, program
from gambrel.analysis.fusion.traffic import Members, with_traffic
from gambrel.workload import Workload


def group(
    workload: Workload,
    evaluator: Evaluator,
    stack: Stack | str,
    priced: Sequence[Priced] | None = None,
) -> tuple[Kernel, ...]:
    """The kernels that a software stack makes of a workload.

    Every op that is not free belongs to exactly one kernel; stacks other than ``eager`` leave out
    ops whose results nobody reads. The sum of the kernels' traffic never grows from ``eager`` over
    ``compiled`` and ``epilogue`` to ``ideal``.

    Args:
        workload: The model.
        evaluator: Bound to integer sizes and a precision.
        stack: The stack, or its name.
        priced: What ``evaluator.costs()`` yields, where that is known already.

    Returns:
        Kernels in an order in which they can run.

    Raises:
        InputError: No such stack.
    """
    chosen = parse_stack(stack)
    flow = program(workload, tuple(evaluator.costs()) if priced is None else priced)
    return _STACKS[chosen](flow) if flow.steps else ()


def _eager(flow: Program) -> tuple[Kernel, ...]:
    alone = [Members(ops=(i,), kind=step.view.kind) for i, step in flow.steps.items()]
    return with_traffic(alone, flow)


def _compiled(flow: Program) -> tuple[Kernel, ...]:
    return _grouped(flow)[1]


def _epilogue(flow: Program) -> tuple[Kernel, ...]:
    return with_traffic(with_epilogues(_grouped(flow)[0], flow), flow)


def _ideal(flow: Program) -> tuple[Kernel, ...]:
    live = tuple(flow.live())
    return with_traffic([Members(ops=live, kind=WHOLE)], flow) if live else ()


def _grouped(flow: Program) -> tuple[list[Members], tuple[Kernel, ...]]:
    """As a compiler forms them; without recomputation where that moves more than eager does."""
    groups = compiled(flow)
    kernels = with_traffic(groups, flow)
    eager = sum(step.repeat * sum(step.eager_bytes) for step in flow.steps.values())
    if sum(k.traffic_bytes for k in kernels) > eager:
        groups = compiled(flow, recompute=False)
        kernels = with_traffic(groups, flow)
    return groups, kernels


_STACKS: Final[dict[Stack, Callable[[Program], tuple[Kernel, ...]]]] = {
    Stack.EAGER: _eager,
    Stack.COMPILED: _compiled,
    Stack.EPILOGUE: _epilogue,
    Stack.IDEAL: _ideal,
}
