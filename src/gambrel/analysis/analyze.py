"""The main question: a workload on a device in a precision, as one `Analysis`."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from typing import Any

import msgspec
from msgspec.structs import replace

from gambrel._version import __version__
from gambrel.analysis.costs import CostTable, Place
from gambrel.analysis.energy import energy
from gambrel.analysis.evaluate import Evaluator, shapes_text
from gambrel.analysis.evaluation import Evaluation
from gambrel.analysis.expected import Expected, limiter_of
from gambrel.analysis.footprint import parameter_count, workspace_notes
from gambrel.analysis.host import sentence
from gambrel.analysis.measures import Bound, Estimate, Limiter, Measures, State
from gambrel.analysis.needs import Footprint
from gambrel.analysis.precision import describe
from gambrel.analysis.result import Analysis, Group, ModelInfo, OpResult
from gambrel.analysis.roofs import Roofs
from gambrel.analysis.scopes import add, measures_of, share_of
from gambrel.analysis.settings import Resolved, Settings
from gambrel.analysis.sol import Sol, SolRoofs, sol_of, sol_of_op
from gambrel.analysis.workbench import answered, bench_of, machine_on
from gambrel.device.model import Device
from gambrel.ops import Conventions, is_free
from gambrel.runtimes.model import MEMORY_SHARE
from gambrel.units import format_capacity, format_percent, format_si
from gambrel.workload import Op, Phase, Workload


def analyze(workload: Workload, device: Device, settings: Settings | None = None) -> Analysis:
    """Analyzes a workload on a device.

    Args:
        workload: The model.
        device: The machine.
        settings: Precision, sizes, runtime, conventions.

    Returns:
        The one result that every report renders.

    Raises:
        WorkloadError: A size that the model does not have, or not at this value.
        UnknownNameError: No such precision or runtime.
        InputError: The device or the runtime lacks what was asked for.
    """
    case = _case(workload, device, settings or Settings())
    rows = _rows(case)
    if case.settings.levels and not case.roofs.off_chip_only:
        from gambrel.analysis.levels.total import with_levels  # most questions do without

        steps = [
            (p.view, None if p.item is None else case.table.items[p.item].cost, p.op.repeat)
            for p in case.table.places
        ]
        rows = with_levels(rows, case.workload, steps, device, warm=case.settings.warm)
    return _result(case, rows)


class _Case(msgspec.Struct, frozen=True, kw_only=True):
    """A question with everything that it names resolved, and its cost table evaluated.

    Attributes:
        asked: The workload as it was given, for all formats of the machine.
        workload: The ops that it has in the precision.
    """

    asked: Workload
    workload: Workload
    device: Device
    settings: Settings
    chosen: Resolved
    values: dict[str, int]
    evaluator: Evaluator
    roofs: Roofs
    memory: Footprint
    table: CostTable
    held: Evaluation
    expected: Expected
    limits: SolRoofs
    sol: Sol


def _case(workload: Workload, device: Device, settings: Settings) -> _Case:
    values = workload.resolve_symbols(settings.sizes or {})
    machine = machine_on(device, settings)
    bench = bench_of(workload, values, settings.conventions).on(machine)
    found = answered(bench, machine, settings)
    evaluator = bench.evaluator(found.chosen.precision)
    return _Case(
        asked=bench.workload,
        workload=bench.form(found.chosen.precision),
        device=device,
        settings=settings,
        chosen=found.chosen,
        values=values,
        evaluator=evaluator,
        roofs=machine.roofs_under(found.runtime),
        memory=bench.footprint(found.chosen, machine),
        table=found.table,
        held=found.held,
        expected=found.expected,
        limits=machine.limits,
        sol=sol_of(found.table, machine.limits),
    )


def _result(case: _Case, rows: list[OpResult]) -> Analysis:
    """Adds up the table."""
    roofs, settings, table = case.roofs, case.settings, case.table
    whole = case.held.time_s or 0.0
    total = replace(
        add((row.measures for row in rows), roofs),
        roofline_time_s=case.held.time_s,
        time_share=1.0 if whole else None,
        expected_time_s=case.expected.total,
        limited_by=case.expected.limited_by,
        sol_time_s=case.sol.time_s,
        sol_bound=case.sol.bound,
        sol_traffic_bytes=case.sol.traffic_bytes,
    )
    if table.on_host:
        total = replace(total, bound=None)
    rows = [_with_share(row, whole) for row in rows]
    runtime = case.chosen.runtime
    cached_s, cache_notes = _with_caches(case, total, rows)
    return Analysis(
        model=_model(case),
        hardware=case.device,
        sparsity=settings.sparsity,
        total=total,
        sol=case.sol,
        ops=tuple(rows),
        by_kind=_groups(rows, lambda row: row.kind, roofs, whole),
        by_module=_groups(rows, lambda row: block_of(row.module), roofs, whole),
        bound_shares=_bound_shares(rows),
        coverage=_coverage(table),
        coverage_traffic=_known_share(table),
        coverage_time=_known_share(table),
        unmodelled=dict(_by_kind(table.unmodelled)),
        host_ops=dict(_by_kind(table.on_host)),
        on_host=sentence(table.on_host),
        free_ops=table.free,
        footprint=case.memory,
        conventions=asdict(settings.conventions),
        assumptions=(
            *_assumptions(case),
            *_kernel_note(case),
            *workspace_notes(case.memory),
        ),
        cache_notes=cache_notes,
        warnings=_warnings(case),
        workload=case.asked,
        gambrel_version=__version__,
        engine=settings.engine or "",
        runtime=runtime.runtime.id,
        runtime_name=runtime.runtime.name,
        runtime_reason=runtime.reason,
        warm=settings.warm,
        launches=table.kernel_count,
        energy=energy(total, case.device, case.values.get("batch", 1)),
        cached_roofline_time_s=cached_s,
    )


def _with_caches(
    case: _Case, total: Measures, rows: Sequence[OpResult]
) -> tuple[float | None, tuple[str, ...]]:
    """The roofline with what caches keep, and what to say of it; nothing without levels."""
    if not any(row.measures.levels for row in rows):
        return None, ()
    from gambrel.analysis.levels.total import cached_roofline, describe_caches

    seconds = None if case.table.on_host else cached_roofline(row.measures for row in rows)
    return seconds, describe_caches(total, seconds, case.settings.warm, rows)


def _model(case: _Case) -> ModelInfo:
    return ModelInfo(
        name=case.workload.name,
        origin=case.workload.origin,
        precision=case.chosen.precision,
        precision_reason=case.chosen.precision_reason,
        symbols=case.values,
        parameters=parameter_count(case.workload, case.evaluator),
        training=case.workload.training,
    )


def _rows(case: _Case) -> list[OpResult]:
    alone = _alone_in_leaf(case.workload)
    known: dict[Any, Measures] = {}
    rows = []
    for place in case.table.places:
        op = place.op
        key = place.item, op.repeat, place.sol_bytes
        if key not in known:
            known[key] = _measures(case, place)
        state = State.UNMODELLED
        if place.item is not None:
            state = State.HOST if case.table.items[place.item].host else State.COUNTED
        starts = 0 if place.item is None else case.table.items[place.item].launches * op.repeat
        unique = (op.module, op.phase) in alone
        rows.append(_row(place, unique, known[key], round(starts), state))
    return rows


def _measures(case: _Case, place: Place) -> Measures:
    if place.item is None:
        return Measures()
    item, repeat = case.table.items[place.item], place.op.repeat
    one = case.expected.items[place.item]
    limit = case.held.limits[place.item]
    estimate = None if one is None else one.times(repeat)
    own = sol_of_op(place, item.cost, case.limits)
    found = measures_of(
        item.cost,
        case.roofs,
        busy=case.held.busy[place.item],
        time_s=case.held.times[place.item],
        limit=limit,
        count=repeat,
    )
    return replace(
        found,
        sol_time_s=own[0],
        sol_bound=own[1],
        sol_traffic_bytes=round(place.sol_bytes),
        expected_time_s=estimate,
        limited_by=_limiter(case, place.item, estimate),
    )


def _limiter(case: _Case, item: int, estimate: Estimate | None) -> Limiter | None:
    if case.expected.limiters and estimate is not None:
        return case.expected.limiters[item]
    return limiter_of(estimate, case.held.limits[item])


def _row(place: Place, unique: bool, measures: Measures, launches: int, state: State) -> OpResult:
    op = place.op
    short = (op.name or op.kind).removeprefix("aten.").removesuffix(".default")
    name = op.module if unique and op.module else f"{op.module} {short}".strip()
    return OpResult(
        name=name,
        kind=op.kind,
        op=op.name,
        module=op.module,
        source=op.source,
        phase=op.phase.value,
        state=state,
        count=op.repeat,
        shapes=shapes_text(place.view),
        measures=measures,
        launches=launches,
    )


def _by_kind(ops: Iterable[Op]) -> Counter[str]:
    found: Counter[str] = Counter()
    for op in ops:
        found[op.kind] += op.repeat
    return found


def _coverage(table: CostTable) -> float:
    """Share of the ops with a formula."""
    seen = len(table.places) + table.free
    missing = sum(_by_kind(table.unmodelled).values())
    return (seen - missing) / seen if seen else 1.0


def _known_share(table: CostTable) -> float:
    """Share of the bytes of all operands that belongs to ops with a formula."""
    whole = table.known_bytes + table.unknown_bytes
    return table.known_bytes / whole if whole else 1.0


def _kernel_note(case: _Case) -> tuple[str, ...]:
    """What a reader must know of the runtime's kernels; nothing where every op is one."""
    runtime = case.chosen.runtime.runtime
    if runtime.service is not None:
        least, each = runtime.service.step_s, runtime.service.request_s
        return (
            f"times are those of the kernels of a step; {runtime.name} itself takes up to "
            f"{format_si(least, 's', 3)} of the host for each step and {format_si(each, 's', 3)} "
            "for each request in it, which serve-plan adds.",
        )
    if not case.table.kernels and runtime.kernels == "op":
        return ()
    name, count = case.chosen.runtime.runtime.name, case.table.kernel_count
    return (f"under {name} the ops run as {count:,} kernels; traffic and times are theirs.",)


def block_of(module: str) -> str:
    """The part of a module path that names a block: up to its first index, else its first name.

    A model that is part of a pipeline (``"unet:down_blocks.0"``) is one block.
    """
    part = re.match(r"([a-z]\w*):", module)
    if part:
        return part.group(1)
    found = re.match(r"(.*?\.)?\d+(?=\.|$)", module)
    return found.group(0) if found else module.split(".", 1)[0] or "(top)"


def _alone_in_leaf(workload: Workload) -> set[tuple[str, Phase]]:
    """Modules that run one op and contain no other module: their path alone names the op."""
    counted = [op for op in workload.ops if not is_free(op.kind)]
    paths = {op.module for op in counted}
    parents = {path[:dot] for path in paths for dot in _dots(path)}
    per_module = Counter((op.module, op.phase) for op in counted)
    return {key for key, n in per_module.items() if n == 1 and key[0] not in parents}


def _dots(path: str) -> list[int]:
    return [i for i, c in enumerate(path) if c == "."]


def _with_share(row: OpResult, whole: float) -> OpResult:
    return replace(row, measures=share_of(row.measures, whole))


def _groups(
    rows: list[OpResult], key: Callable[[OpResult], str], roofs: Roofs, whole: float
) -> tuple[Group, ...]:
    members: dict[str, list[OpResult]] = defaultdict(list)
    for row in rows:
        members[key(row)].append(row)
    groups = [
        Group(
            name=name,
            count=sum(row.count for row in found),
            measures=add((row.measures for row in found), roofs, whole),
        )
        for name, found in members.items()
    ]
    return tuple(sorted(groups, key=lambda g: -(g.measures.roofline_time_s or 0.0)))


def _bound_shares(rows: list[OpResult]) -> dict[str, float]:
    shares: dict[str, float] = {}
    for bound in Bound:
        found = [row.measures.time_share or 0.0 for row in rows if row.measures.bound is bound]
        if found:
            shares[bound.value] = sum(found)
    return shares


def _assumptions(case: _Case) -> tuple[str, ...]:
    workload, precision = case.workload, case.chosen.precision
    roofs, settings = case.roofs, case.settings
    work = dict.fromkeys(
        (engine.value, dtype, item.cost.prunable)
        for item in case.table.items
        for engine, dtype in item.cost.work
    )
    unknown = tuple(
        f"{roofs.device.id} publishes no peak for {name} work: it is counted but does not limit "
        "the roofline."
        for name in roofs.unknown_engines(work)
    )
    return (
        *workload.assumptions,
        *(
            ()
            if "=" in precision or precision == workload.precisions
            else describe(workload.dtype, precision)
        ),
        *roofs.notes,
        *roofs.engine_notes(work),
        *unknown,
        *_convention_notes(workload, settings.conventions),
        *((_SPARSE,) if settings.sparsity else ()),
    )


_SPARSE = (
    "structured sparsity: forward matmuls with weights run at the sparse peak, all other matrix "
    "work (attention, backward) at the dense one; the traffic of weights is counted dense."
)


def _convention_notes(workload: Workload, conventions: Conventions) -> tuple[str, ...]:
    if not any(op.attrs.get("causal") for op in workload.ops):
        return ()
    pairs = "S(S+1)/2" if conventions.causal == "half" else "S^2"
    return (f"causal attention counts {pairs} query-key pairs.",)


def _warnings(case: _Case) -> tuple[str, ...]:
    memory, device, expected = case.memory, case.device, case.expected.total
    runtime, warnings = case.chosen.runtime.runtime, []
    missing = _by_kind(case.table.unmodelled)
    if missing:
        listed = ", ".join(f"{kind} ×{n}" for kind, n in missing.most_common(8))
        warnings.append(f"without a formula, and so missing from every figure: {listed}.")
    if memory.fits is False:
        warnings.append(
            f"needs {format_capacity(memory.total_bytes)} and {device.id} has "
            f"{format_capacity(memory.capacity_bytes)}: it does not fit."
        )
    whole = memory.capacity_bytes
    if runtime.service and memory.fits and memory.total_bytes > (whole or 0) * MEMORY_SHARE:
        warnings.append(
            f"{runtime.name} takes {format_percent(MEMORY_SHARE)} of {format_capacity(whole)} by "
            f"default, too little for {format_capacity(memory.total_bytes)}: raise its share."
        )
    if expected is not None and expected.caution:
        warnings.append(expected.caution)
    return tuple(warnings)
