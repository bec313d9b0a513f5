"""The main question: a workload on a device in a precision, as one `Analysis`."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field

import msgspec

from gambrel._version import __version__
from gambrel.analysis.bounding import Roofs, add, bound_op, fused_bound, roofs_of, share_of
from gambrel.analysis.energy import energy
from gambrel.analysis.estimate import Calibration, Estimator
from gambrel.analysis.evaluate import Evaluator, shapes_text
from gambrel.analysis.footprint import footprint, parameter_count
from gambrel.analysis.fusion import Stack, describe_kernels, fuse, parse_stack
from gambrel.analysis.levels import (
    Step,
    cached_roofline,
    describe_caches,
    with_levels,
)
from gambrel.analysis.measures import Bound, Measures, State
from gambrel.analysis.needs import Footprint
from gambrel.analysis.precision import casts_of, check_precision, describe
from gambrel.analysis.result import Analysis, Group, ModelInfo, OpResult
from gambrel.analysis.traffic import IdealTraffic, OffChip
from gambrel.device.model import Device
from gambrel.device.roofs import default_precision
from gambrel.dtypes import parse_dtype
from gambrel.ops import Conventions, Cost, OpView, is_free
from gambrel.ops.base import distinct_bytes
from gambrel.units import format_capacity
from gambrel.workload import Op, Phase, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a user may choose besides model and device.

    Attributes:
        precision: Number format to run in; None chooses one and says why.
        sizes: Values for the model's symbols.
        sparsity: Use the structured-sparsity peaks.
        engine: Hold matrix work against this engine of the device only.
        conventions: How to count where the field disagrees.
        stack: How ops become kernels: ``eager``, ``compiled``, ``epilogue`` or ``ideal``; see
            `gambrel.analysis.fusion`.
        framework: Whose kernels run, for the expected time: ``any`` (not
            known), ``vllm``, ``sglang`` or ``trtllm``.
        calibration: Constants of the expected time; None for those that come with gambrel.
        warm: The caches hold what an earlier run of the same model left; else they are empty.
    """

    precision: str | None = None
    sizes: Mapping[str, int | None] | None = None
    sparsity: bool = False
    engine: str | None = None
    conventions: Conventions = field(default_factory=Conventions)
    stack: str = "eager"
    framework: str = "any"
    calibration: Calibration | None = None
    warm: bool = False


def analyze(workload: Workload, device: Device, settings: Settings | None = None) -> Analysis:
    """Analyzes a workload on a device.

    Args:
        workload: The model.
        device: The machine.
        settings: Precision, sizes, conventions.

    Returns:
        The one result that every report renders.

    Raises:
        WorkloadError: A size that the model does not have, or not at this value.
        UnknownNameError: No such precision.
    """
    case = _case(workload, device, settings or Settings())
    estimator = Estimator(
        case.roofs,
        case.settings.calibration,
        case.settings.framework,
        compiled=parse_stack(case.settings.stack) is not Stack.EAGER,
    )
    table = _table(case, estimator)
    if not case.roofs.off_chip_only:
        table.rows = with_levels(table.rows, workload, table.steps, device, warm=case.settings.warm)
    return _result(case, table)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """A question with everything that it names resolved."""

    workload: Workload
    device: Device
    settings: Settings
    values: dict[str, int]
    precision: str
    reason: str
    evaluator: Evaluator
    roofs: Roofs
    memory: Footprint


def _case(workload: Workload, device: Device, settings: Settings) -> _Case:
    values = workload.resolve_symbols(settings.sizes or {})
    precision, reason = choose_precision(workload, device, settings.precision)
    roofs = roofs_of(device, sparsity=settings.sparsity, engine=settings.engine)
    casts = casts_of(workload, precision)
    evaluator = Evaluator(workload, values, casts, settings.conventions)
    return _Case(
        workload=workload,
        device=device,
        settings=settings,
        values=values,
        precision=precision,
        reason=reason,
        evaluator=evaluator,
        roofs=roofs,
        memory=footprint(workload, evaluator, roofs.capacity_bytes),
    )


def _result(case: _Case, table: _Table) -> Analysis:
    """Adds up the table."""
    roofs, settings = case.roofs, case.settings
    total = add((row.measures for row in table.rows), roofs)
    whole = total.roofline_time_s or 0.0
    rows = tuple(_with_share(row, whole) for row in table.rows)
    total = share_of(total, whole)
    ideal_bytes = table.ideal_bytes(total, roofs)
    cached_s = cached_roofline(row.measures for row in rows)
    return Analysis(
        model=_model(case),
        hardware=case.device,
        sparsity=settings.sparsity,
        total=total,
        ops=rows,
        by_kind=_groups(rows, lambda row: row.kind, roofs, whole),
        by_module=_groups(rows, lambda row: block_of(row.module), roofs, whole),
        bound_shares=_bound_shares(rows),
        coverage=table.coverage,
        coverage_traffic=table.coverage_traffic,
        unmodelled=dict(table.unmodelled),
        free_ops=table.free,
        ideal_traffic_bytes=ideal_bytes,
        sol_time_s=fused_bound(total, ideal_bytes, roofs),
        footprint=case.memory,
        conventions=asdict(settings.conventions),
        assumptions=(
            *_assumptions(case.workload, case.precision, roofs, settings),
            *table.notes,
            *describe_caches(total, cached_s, settings.warm, rows),
        ),
        warnings=_warnings(table, case.memory, case.device),
        workload=case.workload,
        gambrel_version=__version__,
        engine=settings.engine or "",
        expected_bound=_expected_bound(rows),
        stack=parse_stack(settings.stack).value,
        framework=settings.framework,
        warm=settings.warm,
        launches=sum(row.launches for row in rows),
        energy=energy(total, case.device, case.values.get("batch", 1)),
        cached_roofline_time_s=cached_s,
    )


def _model(case: _Case) -> ModelInfo:
    return ModelInfo(
        name=case.workload.name,
        origin=case.workload.origin,
        precision=case.precision,
        precision_reason=case.reason,
        symbols=case.values,
        parameters=parameter_count(case.workload, case.evaluator),
        training=case.workload.training,
    )


def choose_precision(workload: Workload, device: Device, requested: str | None) -> tuple[str, str]:
    """The number format to run in, and why.

    What the model was built with part by part; what the user asks for; else the dtype that the
    user's own module or file has; else, for an architecture from the zoo, the format that the
    device's engine is made for.
    """
    if workload.precisions and requested in (None, workload.precisions):
        return workload.precisions, "part by part"
    if requested is not None:
        precision = parse_dtype(requested)
        check_precision(workload.dtype, precision)
        return precision, "as asked"
    if workload.chosen_dtype:
        return workload.dtype, "the model's own"
    precision, reason = default_precision(device)
    return precision, f"{reason.rstrip('.')}; choose with --precision"


def block_of(module: str) -> str:
    """The part of a module path that names a block: up to its first index, else its first name.

    A model that is part of a pipeline (``"unet:down_blocks.0"``) is one block.
    """
    part = re.match(r"([a-z]\w*):", module)
    if part:
        return part.group(1)
    found = re.match(r"(.*?\.)?\d+(?=\.|$)", module)
    return found.group(0) if found else module.split(".", 1)[0] or "(top)"


@dataclass(slots=True, kw_only=True)
class _Table:
    """What one pass over the ops yields."""

    rows: list[OpResult]
    steps: list[Step]
    ideal: IdealTraffic
    unmodelled: Counter[str]
    free: int = 0
    known_bytes: float = 0.0
    unknown_bytes: float = 0.0
    notes: tuple[str, ...] = ()

    def ideal_bytes(self, total: Measures, roofs: Roofs) -> int:
        """Traffic of an ideal fusion; what crosses a host link is no more than that already."""
        return total.traffic_bytes if roofs.off_chip_only else round(self.ideal.total_bytes())

    @property
    def coverage(self) -> float:
        missing = sum(self.unmodelled.values())
        seen = len(self.rows) + self.free
        return (seen - missing) / seen if seen else 1.0

    @property
    def coverage_traffic(self) -> float:
        whole = self.known_bytes + self.unknown_bytes
        return self.known_bytes / whole if whole else 1.0


def _table(case: _Case, estimator: Estimator) -> _Table:
    workload, evaluator, roofs = case.workload, case.evaluator, case.roofs
    memory, stack = case.memory, case.settings.stack
    table = _Table(rows=[], steps=[], ideal=IdealTraffic(workload), unmodelled=Counter())
    alone = _alone_in_leaf(workload)
    off_chip = (
        OffChip(workload, memory.weights_bytes, roofs.capacity_bytes)
        if roofs.off_chip_only
        else None
    )
    priced = tuple(evaluator.costs())
    fused = fuse(workload, evaluator, stack, priced, roofs, off_chip)
    table.notes = describe_kernels(fused, stack)
    for index, (op, view, cost) in enumerate(priced):
        if is_free(op.kind):
            table.free += 1
            continue
        if cost is None:
            table.unmodelled[op.kind] += op.repeat
            table.unknown_bytes += distinct_bytes(view.inputs) + distinct_bytes(view.outputs)
            measures = Measures()
        else:
            table.known_bytes += cost.read_bytes + cost.write_bytes
            table.ideal.see(view, cost)
            measures = (
                fused.measured(index, view, estimator.estimate, op.repeat)
                if fused
                else _alone(view, cost, op.repeat, off_chip, roofs, estimator)
            )
        state = State.UNMODELLED if cost is None else State.COUNTED
        unique = (op.module, op.phase) in alone
        if fused:
            table.steps.append((view, fused.costs.get(index), 1))
        else:
            table.steps.append((view, cost, op.repeat))
        starts = fused.launches.get(index, 0) if fused else op.repeat
        table.rows.append(_row(op, unique, state, shapes_text(view), measures, starts))
    return table


def _alone(
    view: OpView, cost: Cost, count: int, off_chip: OffChip | None, roofs: Roofs, by: Estimator
) -> Measures:
    """The measures of an op that is a kernel of its own."""
    measures = bound_op(off_chip(view, cost) if off_chip else cost, roofs, count)
    expected = by.estimate(view, cost, measures.roofline_time_s, count)
    return msgspec.structs.replace(measures, expected_time_s=expected)


def _alone_in_leaf(workload: Workload) -> set[tuple[str, Phase]]:
    """Modules that run one op and contain no other module: their path alone names the op."""
    counted = [op for op in workload.ops if not is_free(op.kind)]
    paths = {op.module for op in counted}
    parents = {path[:dot] for path in paths for dot in _dots(path)}
    per_module = Counter((op.module, op.phase) for op in counted)
    return {key for key, n in per_module.items() if n == 1 and key[0] not in parents}


def _dots(path: str) -> list[int]:
    return [i for i, c in enumerate(path) if c == "."]


def _row(
    op: Op, unique: bool, state: State, shapes: str, measures: Measures, launches: int
) -> OpResult:
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
        shapes=shapes,
        measures=measures,
        launches=launches,
    )


def _with_share(row: OpResult, whole: float) -> OpResult:
    return msgspec.structs.replace(row, measures=share_of(row.measures, whole))


def _groups(
    rows: tuple[OpResult, ...], key: Callable[[OpResult], str], roofs: Roofs, whole: float
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


def _bound_shares(rows: tuple[OpResult, ...]) -> dict[str, float]:
    shares: dict[str, float] = {}
    for bound in Bound:
        found = [row.measures.time_share or 0.0 for row in rows if row.measures.bound is bound]
        if found:
            shares[bound.value] = sum(found)
    return shares


def _expected_bound(rows: tuple[OpResult, ...]) -> Bound | None:
    """What takes most of the expected time: starting kernels, or ops of one bound."""
    seconds: dict[Bound, float] = defaultdict(float)
    for row in rows:
        expected = row.measures.expected_time_s
        if expected is not None and row.measures.bound is not None:
            seconds[Bound.OVERHEAD] += expected.overhead_s
            seconds[row.measures.bound] += expected.value - expected.overhead_s
    return max(seconds, key=lambda bound: seconds[bound], default=None)


def _assumptions(
    workload: Workload, precision: str, roofs: Roofs, settings: Settings
) -> tuple[str, ...]:
    unknown = tuple(
        f"{roofs.device.id} publishes no roof for {work} work: it is counted but does not limit "
        "the bound."
        for work in roofs.unknown_engines()
    )
    return (
        *workload.assumptions,
        *(() if precision == workload.precisions else describe(workload.dtype, precision)),
        *roofs.notes,
        *roofs.engine_notes(),
        *unknown,
        *_convention_notes(workload, settings.conventions),
        *((_SPARSE,) if settings.sparsity else ()),
    )


_SPARSE = (
    "structured sparsity: forward products with weights run at the sparse peak, all other matrix "
    "work (attention, backward) at the dense one; the traffic of weights is counted dense."
)


def _convention_notes(workload: Workload, conventions: Conventions) -> tuple[str, ...]:
    if not any(op.attrs.get("causal") for op in workload.ops):
        return ()
    pairs = "S(S+1)/2" if conventions.causal == "half" else "S^2"
    return (f"causal attention counts {pairs} query-key pairs.",)


def _warnings(table: _Table, memory: Footprint, device: Device) -> tuple[str, ...]:
    warnings = []
    if table.unmodelled:
        listed = ", ".join(f"{kind} ×{n}" for kind, n in table.unmodelled.most_common(8))
        warnings.append(f"without a formula, and so missing from every figure: {listed}.")
    if memory.fits is False:
        warnings.append(
            f"needs {format_capacity(memory.total_bytes)} and {device.id} has "
            f"{format_capacity(memory.capacity_bytes)}: it does not fit."
        )
    return tuple(warnings)
