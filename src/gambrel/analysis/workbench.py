"""One workload at given sizes, and the machines that it is held against.

Tables are made once for each number format and way of fusing, roofs once for each device; every
question about a time is answered here, so that no two faces can differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from gambrel.analysis.costs import CostTable, cost_table
from gambrel.analysis.evaluate import Evaluator
from gambrel.analysis.evaluation import Evaluation, evaluate_table, evaluate_table_on
from gambrel.analysis.expected import Expected, Forecaster, estimator_of
from gambrel.analysis.expected_on import expected_times_on
from gambrel.analysis.footprint import footprint
from gambrel.analysis.needs import Footprint
from gambrel.analysis.plan import KernelPlan, plan_of
from gambrel.analysis.precision import casts_of
from gambrel.analysis.roofs import Roofs, roofs_of, under
from gambrel.analysis.settings import Resolved, Settings, is_language_model, resolved
from gambrel.analysis.shortcuts import fewest_operations, multiplies_less
from gambrel.analysis.sized import SizedWorkload
from gambrel.analysis.sol import Sol, SolRoofs, sol_of, sol_roofs, sol_time
from gambrel.device.model import Device
from gambrel.device.roofs import resolve
from gambrel.ops import Conventions
from gambrel.ops.base import Size
from gambrel.runtimes import Kernels, Runtime, UnitTiling, Workspace
from gambrel.workload import Op, Workload
from gambrel.workload.formats import in_format

if TYPE_CHECKING:  # fusion is loaded where kernels fuse
    from gambrel.analysis.fusion.spans import Span

#: Categories of devices whose compilers put all of a network into one number format.
ONE_FORMAT: Final = frozenset({"npu", "edge npu", "wafer-scale npu", "edge accelerator"})


class Workbench:
    """A workload at given sizes.

    Args:
        workload: The model.
        sizes: A value for every symbol: a number, or an array of one per point.
        conventions: How to count where the field disagrees.
        bulk: Whether many devices will follow.
        spans: Number format → kernels at all points, where sizes are arrays and ops fuse.
    """

    def __init__(
        self,
        workload: Workload,
        sizes: Mapping[str, Size],
        conventions: Conventions,
        *,
        bulk: bool = False,
        spans: Mapping[str, Span] | None = None,
    ) -> None:
        self._spans = spans or {}
        self.workload = workload
        self.sizes = sizes
        self._conventions = conventions
        self._bulk = bulk
        self._evaluators: dict[str, Evaluator] = {}
        self._asked: dict[str, SizedWorkload] = {}
        self._tables: dict[tuple[str, KernelPlan], CostTable] = {}
        self._memory: dict[tuple[str, Workspace | None], Footprint] = {}
        self._whole: Workbench | None = None
        #: What was decided of it, by who decided and how: kept for as long as its tables.
        self.decided: dict[Any, Any] = {}

    @property
    def kept_ops(self) -> int:
        """Ops that its tables hold, to be set against what may be kept."""
        return len(self.workload.ops) * (_BULK_TABLES if self._bulk else 1)

    def on(self, machine: Machine) -> Workbench:
        """The bench for a machine: without casts where compilers put all into the one format."""
        whole = machine.form_of(self.workload)
        if whole is self.workload:
            return self
        if self._whole is None:
            self._whole = Workbench(
                whole, self.sizes, self._conventions, bulk=self._bulk, spans=self._spans
            )
        return self._whole

    def form(self, precision: str) -> Workload:
        """The ops that the workload has in a number format."""
        return in_format(self.workload, precision)

    def evaluator(self, precision: str) -> Evaluator:
        """The workload with sizes and formats filled in."""
        if precision not in self._evaluators:
            form = self.form(precision)
            casts = casts_of(form, precision)
            made = Evaluator(form, self.sizes, casts, self._conventions)
            self._evaluators[precision] = made
        return self._evaluators[precision]

    def sized(self, precision: str) -> SizedWorkload:
        """What tables in a number format share."""
        if precision not in self._asked:
            self._asked[precision] = SizedWorkload(
                self.form(precision), self.evaluator(precision), self._spans.get(precision)
            )
        return self._asked[precision]

    def table(self, precision: str, plan: KernelPlan) -> CostTable:
        """What the workload asks for in a number format under a way of fusing."""
        asked = self.sized(precision)
        key = precision, asked.needed(plan)
        if key not in self._tables:
            same = precision, msgspec.structs.replace(key[1], tiling=UnitTiling())
            if same not in self._tables:
                self._tables[same] = cost_table(asked, same[1], bulk=self._bulk)
            if key != same:
                self._tables[key] = self._tables[same].with_tiling(key[1].tiling)
        return self._tables[key]

    @property
    def language(self) -> bool:
        """Whether the workload is a phase of an autoregressive language model."""
        return is_language_model(self.workload)

    def footprint(self, chosen: Resolved, machine: Machine) -> Footprint:
        """What a run needs at once on a machine: the one figure that "fits" rests on."""
        if self.on(machine) is not self:
            return self.on(machine).footprint(chosen, machine)
        precision, rules = chosen.precision, chosen.runtime.runtime.workspace_on(machine.device)
        key = precision, rules
        if key not in self._memory:
            made = footprint(self.form(precision), self.evaluator(precision), None, rules)
            self._memory[key] = made
        return self._memory[key].within(machine.roofs.capacity_bytes, machine.roofs.flash_bytes)


def bench_of(
    workload: Workload,
    sizes: Mapping[str, int],
    conventions: Conventions,
    *,
    bulk: bool = False,
) -> Workbench:
    """A workload at given sizes; those of the last questions are kept, with their tables.

    Questions come in rows: the same model on another device, its comparison, what to change.

    Args:
        workload: The model.
        sizes: A value for every symbol.
        conventions: How to count where the field disagrees.
        bulk: Whether many devices will follow.
    """
    # A bench keeps its workload, and so its id.
    key = id(workload), tuple(sorted(sizes.items())), conventions, bulk
    bench = _recent.pop(key, None) or Workbench(workload, sizes, conventions, bulk=bulk)
    _recent[key] = bench
    while sum(one.kept_ops for one in tuple(_recent.values())) > _KEPT_OPS:
        _recent.pop(next(iter(_recent)), None)
    return bench


#: Ops of all benches that are kept, some kilobytes each: a network at every batch for a catalog.
_KEPT_OPS: Final = 20_000
#: A bench for a catalog of devices counts as so many for one device: it has some 30 tables.
_BULK_TABLES: Final = 5
_recent: dict[tuple[Any, ...], Workbench] = {}
#: Machines that are kept: more than a catalog with its power modes.
_KEPT_MACHINES: Final = 400
_machines: dict[tuple[Any, ...], Machine] = {}


def forget() -> None:
    """Drops the benches and machines that are kept."""
    _recent.clear()
    _machines.clear()


class Machine:
    """A device under settings: its roofs, its speed-of-light ceilings, what predicts its kernels.

    Args:
        device: The device.
        settings: Sparsity, engine and calibration count.
    """

    def __init__(self, device: Device, settings: Settings) -> None:
        self.device = device
        self.settings = settings
        self.roofs: Roofs = roofs_of(device, sparsity=settings.sparsity, engine=settings.engine)
        self.limits: SolRoofs = sol_roofs(self.roofs)
        self._estimators: dict[tuple[str, bool], Forecaster | None] = {}
        self._plans: dict[str, KernelPlan] = {}
        self._narrow = under(self.roofs, narrow_sums=True)
        self._chosen: dict[tuple[int, str | None, str | None], tuple[Workload, Resolved]] = {}

    def estimator(self, runtime: Runtime, *, language: bool = False) -> Forecaster | None:
        """What predicts a runtime; None where nothing of them was measured.

        Args:
            runtime: That runs the workload.
            language: Whether a phase of a language model is to run.
        """
        key = runtime.id, language
        if key not in self._estimators:
            roofs = self.roofs_under(runtime)
            made = estimator_of(roofs, runtime, self.settings, language=language)
            self._estimators[key] = made
        return self._estimators[key]

    def form_of(self, workload: Workload) -> Workload:
        """Without casts where compilers put all of a model into the one format.

        Those of NPUs do, and those of what runs nothing but GEMMs in the model's own format.
        """
        lacks = self.device.ceilings and resolve(self.device, "vector", workload.dtype) is None
        one = lacks or self.device.category in ONE_FORMAT
        return in_format(workload, workload.dtype) if one else workload

    def roofs_under(self, runtime: Runtime) -> Roofs:
        """The roofs of a runtime's kernels."""
        return self._narrow if runtime.narrow_sums else self.roofs

    def chosen(self, workload: Workload, settings: Settings) -> Resolved:
        """Precision and runtime of a question about a workload here.

        Raises:
            UnknownNameError: No such precision or runtime.
            InputError: The device or the runtime lacks what was asked for.
        """
        key = id(workload), settings.precision, settings.runtime
        if key not in self._chosen:  # it is kept with its workload, and so with that one's id
            if len(self._chosen) >= _KEPT_ANSWERS:
                self._chosen.clear()
            self._chosen[key] = workload, resolved(workload, self.device, settings)
        return self._chosen[key][1]

    def plan(self, runtime: Runtime) -> KernelPlan:
        """What the runtime makes of a workload here."""
        if runtime.id not in self._plans:
            kept = self.limits.kept
            self._plans[runtime.id] = plan_of(
                runtime,
                self.device,
                off_chip_only=self.roofs.off_chip_only,
                on_chip_bytes=0 if kept.assumed else kept.capacity_bytes,
            )
        return self._plans[runtime.id]


#: Choices of precision and runtime that a machine keeps.
_KEPT_ANSWERS: Final = 16


def machine_on(device: Device, settings: Settings) -> Machine:
    """A device under settings; those of the last questions are kept, with what predicts kernels.

    Args:
        device: The device.
        settings: Sparsity, engine and calibration count.
    """
    # A machine keeps its device and settings, and so their ids.
    key = id(device), settings.sparsity, settings.engine, id(settings.calibration)
    machine = _machines.pop(key, None) or Machine(device, settings)
    _machines[key] = machine
    while len(_machines) > _KEPT_MACHINES:
        _machines.pop(next(iter(_machines)), None)
    return machine


class MachineTimes(msgspec.Struct, frozen=True, kw_only=True):
    """A workload held against a machine.

    Attributes:
        chosen: Precision and runtime, and why.
        table: What the workload asks for.
        held: The roofline.
        expected: The expected time.
        sol_time_s: The speed of light, s; None when no roof is known.
        proved: Whether its ceilings are published ones.
    """

    chosen: Resolved
    table: CostTable
    held: Evaluation
    expected: Expected
    sol_time_s: Size | None
    proved: bool

    @property
    def runtime(self) -> Runtime:
        """The runtime."""
        return self.chosen.runtime.runtime


def answered(bench: Workbench, machine: Machine, settings: Settings) -> MachineTimes:
    """The times of a workload on a machine.

    Args:
        bench: The workload at sizes.
        machine: The device under the settings.
        settings: Precision and runtime.

    Raises:
        UnknownNameError: No such precision or runtime.
        InputError: The device or the runtime lacks what was asked for.
    """
    return answers(bench, [(machine, settings)])[0]


def answers(bench: Workbench, asked: Sequence[tuple[Machine, Settings]]) -> list[MachineTimes]:
    """As `answered`, of many machines: those that share a table are evaluated together.

    Args:
        bench: The workload at sizes.
        asked: Devices under settings, each with precision and runtime.

    Raises:
        UnknownNameError: No such precision or runtime.
        InputError: A device or a runtime lacks what was asked for.
    """
    tables: dict[int, tuple[CostTable, dict[int, Resolved]]] = {}
    for i, (machine, settings) in enumerate(asked):
        chosen = machine.chosen(bench.workload, settings)
        table = bench.on(machine).table(chosen.precision, machine.plan(chosen.runtime.runtime))
        tables.setdefault(id(table), (table, {}))[1][i] = chosen
    found: dict[int, MachineTimes] = {}
    for table, each in tables.values():
        machines = [asked[i][0] for i in each]
        own = _answers(table, machines, list(each.values()), language=bench.language)
        found |= zip(each, own, strict=True)
    return [found[i] for i in range(len(asked))]


def _answers(
    table: CostTable,
    machines: Sequence[Machine],
    chosen: Sequence[Resolved],
    *,
    language: bool,
) -> list[MachineTimes]:
    runtimes = [one.runtime.runtime for one in chosen]
    pairs = evaluated_on(table, machines, runtimes)
    proofs = [machine.limits.proves(table.sol_parts) for machine in machines]
    expected = expected_times_on(
        table,
        [held for held, _ in pairs],
        # How fast the host is with its ops is not known, so neither is the whole.
        [
            None if table.on_host else m.estimator(r, language=language)
            for m, r in zip(machines, runtimes, strict=True)
        ],
        runtimes,
        [machine.device for machine in machines],
    )
    rows = zip(machines, chosen, pairs, expected, proofs, strict=True)
    return [
        MachineTimes(
            chosen=one,
            table=table,
            held=held,
            expected=_packed(found, table, one, machine).no_faster_than(
                sol_s, proved=proved, least_s=_least_seconds(table, machine, one, found, sol_s)
            ),
            sol_time_s=sol_s,
            proved=proved,
        )
        for machine, one, (held, sol_s), found, proved in rows
    ]


def _least_seconds(
    table: CostTable, machine: Machine, chosen: Resolved, found: Expected, sol_s: Size | None
) -> Size | None:
    """What a run below the speed of light takes at the least; None where there is none."""
    one = found.total
    if one is None or sol_s is None or one.low >= sol_s or not may_multiply_less(chosen):
        return None
    return _by_fewest(table, machine)


def _by_fewest(table: CostTable, machine: Machine) -> Size | None:
    return sol_time(fewest_operations(table), machine.limits) if multiplies_less(table) else None


def may_multiply_less(chosen: Resolved) -> bool:
    """Whether such algorithms were measured: of PyTorch's libraries, in fp32."""
    return "torch" in chosen.runtime.runtime.constants and chosen.precision == "fp32"


def _packed(found: Expected, table: CostTable, chosen: Resolved, machine: Machine) -> Expected:
    """Less sure where the runtime has no kernels for the format."""
    runtime = chosen.runtime.runtime
    if not runtime.unpacks(chosen.precision, machine.device):
        return found
    if chosen.precision in runtime.streamed and table.most_rows == 1:
        return found.less_sure(f"{runtime.name} unpacks the weights as it reads them, not measured")
    return found.with_unpacking(runtime.name, chosen.precision)


def evaluated(
    table: CostTable, machine: Machine, runtime: Runtime
) -> tuple[Evaluation, Size | None]:
    """A cost table under the roofs of a machine, and the speed of light."""
    held = evaluate_table(table, machine.roofs_under(runtime))
    return _with_sol(table, held, machine, runtime)


def evaluated_on(
    table: CostTable, machines: Sequence[Machine], runtimes: Sequence[Runtime]
) -> list[tuple[Evaluation, Size | None]]:
    """As `evaluated`, of many machines, each under its runtime."""
    if not table.bulk:
        return [evaluated(table, *each) for each in zip(machines, runtimes, strict=True)]
    each = zip(machines, runtimes, strict=True)
    found = evaluate_table_on(table, [machine.roofs_under(runtime) for machine, runtime in each])
    rows = zip(found, machines, runtimes, strict=True)
    return [_with_sol(table, *row) for row in rows]


def _with_sol(
    table: CostTable, held: Evaluation, machine: Machine, runtime: Runtime
) -> tuple[Evaluation, Size | None]:
    sol_s = sol_time(table.sol_parts, machine.limits)
    if runtime.kernels is Kernels.WHOLE:
        held = held.no_faster_than(sol_s)
    return held, sol_s


def proved_seconds(bench: Workbench, machine: Machine, chosen: Resolved) -> Size | None:
    """A proved speed of light alone, without a table of kernels; None where nothing is proved."""
    plan = machine.plan(chosen.runtime.runtime)
    least = bench.on(machine).sized(chosen.precision).compulsory(plan.resident_bytes)
    if not machine.limits.proves(least.parts):
        return None
    return sol_time(least.parts, machine.limits)


def least_seconds(bench: Workbench, machine: Machine, chosen: Resolved) -> Size | None:
    """The speed of light of the fewest multiplications; None where nothing is known to save any."""
    if not may_multiply_less(chosen):
        return None
    table = bench.on(machine).table(chosen.precision, machine.plan(chosen.runtime.runtime))
    return _by_fewest(table, machine)


def left_to_host(bench: Workbench, machine: Machine, chosen: Resolved) -> list[Op]:
    """Ops that the compiler leaves to the host, without a table of kernels."""
    rule = machine.plan(chosen.runtime.runtime).host_ops
    return [] if rule is None else bench.on(machine).sized(chosen.precision).left_to_host(rule)


def speed_of_light(workload: Workload, device: Device, settings: Settings) -> Sol:
    """The speed of light of a workload on a device, with what it rests on.

    Args:
        workload: The model.
        device: The machine.
        settings: Precision, sizes and the rest.

    Raises:
        WorkloadError: A size that the model does not take.
        InputError: The device or the runtime lacks what was asked for.
    """
    values = workload.resolve_symbols(settings.sizes or {})
    machine = machine_on(device, settings)
    bench = bench_of(workload, values, settings.conventions).on(machine)
    chosen = machine.chosen(workload, settings)
    table = bench.on(machine).table(chosen.precision, machine.plan(chosen.runtime.runtime))
    return sol_of(table, machine.limits)
