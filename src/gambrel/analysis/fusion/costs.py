"""What a grouping makes of the ops' costs: the same work, the kernels' traffic and launches."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from msgspec.structs import replace

from gambrel.analysis.fusion.kernel import Kernel
from gambrel.analysis.fusion.program import Priced
from gambrel.ops import Cost
from gambrel.ops.base import Size, Work
from gambrel.workload import Op


def fused_costs(kernels: Sequence[Kernel], priced: Sequence[Priced]) -> dict[int, Cost]:
    """The cost of every op within its kernel, all executions together.

    Reads count for the op that is the first to read, writes for the op that produces. Ops that no
    kernel runs (dead code) cost nothing; unmodelled ones are left out.

    Args:
        kernels: Of `gambrel.analysis.fusion.group`.
        priced: Every op with its view and cost, in order.

    Returns:
        Op index → cost.
    """
    found = {i: Cost(read_bytes=0, write_bytes=0) for i, (_, _, c) in enumerate(priced) if c}
    for kernel in kernels:
        for i in kernel.ops:
            op, _, cost = priced[i]
            if cost is not None:
                moved = kernel.op_read_bytes.get(i, 0), kernel.op_write_bytes.get(i, 0)
                found[i] = cost_within(op, cost, *moved)
    return found


def cost_within(op: Op, cost: Cost, read_bytes: Size, write_bytes: Size) -> Cost:
    """The cost of all executions of an op with the traffic that its kernel leaves it.

    Args:
        op: The op.
        cost: Of one execution as a kernel of its own.
        read_bytes: Of all executions within the kernel.
        write_bytes: Likewise.
    """
    return replace(
        cost,
        work={key: n * op.repeat for key, n in cost.work.items()},
        read_bytes=read_bytes,
        write_bytes=write_bytes,
        link_bytes=cost.link_bytes * op.repeat,
        network_bytes=cost.network_bytes * op.repeat,
    )


def kernel_costs(kernels: Sequence[Kernel], priced: Sequence[Priced]) -> tuple[Cost, ...]:
    """The cost of every kernel, all executions together: the sum over its ops.

    What a kernel computes again counts no work: it is a handful of operations on values that it
    has at hand, and the model asked for them once.
    """
    by_op = fused_costs(kernels, priced)
    return tuple(_sum([by_op[i] for i in kernel.ops if i in by_op]) for kernel in kernels)


def launches(kernels: Sequence[Kernel]) -> dict[int, int]:
    """Kernel starts by op: the first op of a kernel pays them, the others none.

    Ops that are not in the result pay none.
    """
    return {kernel.ops[0]: kernel.launches * kernel.repeat for kernel in kernels}


def _sum(costs: Sequence[Cost]) -> Cost:
    work: Work = defaultdict(int)
    for cost in costs:
        for key, n in cost.work.items():
            work[key] += n
    return Cost(
        work=dict(work),
        read_bytes=sum(c.read_bytes for c in costs),
        write_bytes=sum(c.write_bytes for c in costs),
        link_bytes=sum(c.link_bytes for c in costs),
        network_bytes=sum(c.network_bytes for c in costs),
    )
