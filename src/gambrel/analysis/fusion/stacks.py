"""The grouping of a workload's ops into kernels, by software stack."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from gambrel.analysis.evaluate import Evaluator
from gambrel.analysis.fusion.compiled import compiled
from gambrel.analysis.fusion.kernel import Kernel, Stack
from gambrel.analysis.fusion.program import Priced, Program, program
from gambrel.analysis.fusion.traffic import Members, with_traffic
from gambrel.workload import Workload


def group(
    workload: Workload,
    evaluator: Evaluator,
    stack: Stack | str,
    priced: Sequence[Priced] | None = None,
) -> tuple[Kernel, ...]:
    flow = program(workload, evaluator, priced or tuple(evaluator.costs()))
    return with_traffic(compiled(flow), flow)
