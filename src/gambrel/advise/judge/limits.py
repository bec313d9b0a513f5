"""The limits of a piece of work on a device: compulsory work, speed of light, I/O lower bounds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from gambrel import roofline
from gambrel.advise.figures import facts_of, figure
from gambrel.advise.judge.io_bounds import attention_note, io_bound
from gambrel.advise.judge.records import IoBound, KernelLimits
from gambrel.analysis.evaluation import binding_of
from gambrel.analysis.measures import Bound, Estimate
from gambrel.analysis.result import Analysis
from gambrel.analysis.shortcuts import LENGTHS
from gambrel.analysis.sol import resources_of, sol_time
from gambrel.analysis.workbench import Machine, Workbench
from gambrel.device.fastest import fastest_memory
from gambrel.device.model import CeilingKind
from gambrel.device.onchip import on_chip
from gambrel.ops import Conventions
from gambrel.units import format_si


def limits_of(analyses: Sequence[Analysis], measured: Analysis | None = None) -> KernelLimits:
    """The limits of a workload.

    Args:
        analyses: The same workload on one device, under one or more runtimes.
        measured: The same on ceilings that were measured; None where none were.
    """
    first = analyses[0]
    priced = _priced(first)
    bounds, notes = _io_bounds(first, priced)
    cold, bound = cold_time(first, bounds)
    best = min(analyses, key=_counted)
    expected, unhosted = _kernel_time(best)
    caveats = _caveats(first, priced)
    return KernelLimits(
        reference=first.model.name,
        hardware=first.hardware.id,
        precision=first.model.precision,
        ceilings=_ceilings(first, measured),
        matrix_flops=first.total.matrix_flops,
        vector_flops=first.total.vector_flops,
        traffic_bytes=first.sol.traffic_bytes,
        sol_time_s=_warm_time(first, bounds),
        floor_time_s=_floor(first, caveats),
        cold_time_s=cold,
        bound=bound,
        measured_ceiling_time_s=None if measured is None else cold_time(measured, bounds)[0],
        io_bounds=bounds,
        library=best.runtime if expected else "",
        library_time_s=None if expected is None else expected.value,
        library_expected=expected,
        launch_s=0.0 if expected is None else expected.launches_s + expected.host_s,
        proves=first.sol.proves,
        caveats=caveats,
        unknown=(*first.sol.unknown, *([first.left_out] if first.left_out else [])),
        notes=(*_coverage(first), *first.sol.notes, *notes, *unhosted),
    )


def _counted(analysis: Analysis) -> float:
    """The expected time as check and select rank it: a guess by the worse end of its range."""
    time_s = figure(facts_of(analysis), "latency").counted
    return float("inf") if time_s is None else time_s


#: Up to so many launches a reference is taken for a kernel, whose time is that of the device.
_KERNELS: Final = 3


def _kernel_time(best: Analysis) -> tuple[Estimate | None, tuple[str, ...]]:
    """The expected time; of a few kernels without the host, which stopwatches of kernels leave out.

    The range keeps its width as a share of the value.
    """
    expected = None if best.left_out else best.expected_time_s
    if expected is None or best.launches > _KERNELS or not expected.host_s:
        return expected, ()
    left = 1.0 - expected.host_share
    own = msgspec.structs.replace(
        expected,
        value=expected.value * left,
        low=expected.low * left,
        high=expected.high * left,
        host_s=0.0,
    )
    host = format_si(expected.host_s, "s")
    return own, (f"the host's {host} of a call from Python are left out of the library's time.",)


def light_of(bench: Workbench, machine: Machine) -> dict[str, Any]:
    """The speed of light alone, for many devices: nothing is fused and nothing estimated.

    Args:
        bench: The workload; what does not depend on the device is computed once.
        machine: The device.

    Returns:
        The figures of a `ProblemRow`.
    """
    chosen = machine.chosen(bench.workload, machine.settings)
    sized = bench.on(machine).sized(chosen.precision)
    least = sized.compulsory(machine.plan(chosen.runtime.runtime).resident_bytes)
    light = sol_time(least.parts, machine.limits)
    work: Counter[str] = Counter()
    for part in least.parts:
        for (engine, _, _), flops in part.work.items():
            work[engine] += flops
    limit = binding_of(resources_of(least.parts, machine.limits))
    traffic = round(sum(p.traffic_bytes * p.passes for p in least.parts))
    rate = machine.limits.memory_byte_per_s
    crossed = None if rate is None else roofline.seconds(traffic, rate)
    slower = crossed is not None and (light is None or crossed > light)
    priced = bench.evaluator(chosen.precision).priced
    counted = sum(cost is not None for _, _, cost in priced)
    return {
        "precision": chosen.precision,
        "sol_time_s": light,
        "cold_time_s": crossed if slower else light,
        "bound": Bound.MEMORY if slower else limit[1] if limit else None,
        "matrix_flops": work["matrix"],
        "vector_flops": work["vector"],
        "traffic_bytes": traffic,
        "coverage": counted / len(priced) if priced else None,
    }


def cold_time(analysis: Analysis, bounds: Sequence[IoBound]) -> tuple[float | None, Bound | None]:
    """The speed of light with every compulsory byte crossing the memory, and what sets it."""
    sol = analysis.sol
    memory = fastest_memory(analysis.hardware)
    if memory is None:
        return sol.time_s, sol.bound
    traffic = max([sol.traffic_bytes, *(b.traffic_bytes for b in bounds)])
    seconds = roofline.seconds(traffic, memory.byte_per_s)
    if sol.time_s is None or seconds > sol.time_s:
        return seconds, Bound.MEMORY
    return sol.time_s, sol.bound


def _warm_time(analysis: Analysis, bounds: Sequence[IoBound]) -> float | None:
    """No run is faster: an I/O lower bound holds whatever was on chip before."""
    memory = fastest_memory(analysis.hardware)
    if memory is None or analysis.sol.time_s is None:
        return analysis.sol.time_s
    moved = max((b.traffic_bytes for b in bounds), default=0)
    return max(analysis.sol.time_s, float(roofline.seconds(moved, memory.byte_per_s)))


def _priced(analysis: Analysis) -> Sequence[tuple[Any, Any, Any]]:
    """Every op with its sizes and its cost; none where the workload is not kept."""
    if analysis.workload is None:
        return ()
    conventions = Conventions(**analysis.conventions)
    bench = Workbench(analysis.workload, analysis.model.symbols, conventions)
    return bench.evaluator(analysis.model.precision).priced


def _caveats(analysis: Analysis, priced: Sequence[tuple[Any, Any, Any]]) -> tuple[str, ...]:
    """Without those that cannot be here: no mask, nothing to leave out."""
    masked = any(v.kind == "attention" and _is_masked(v) for _, v, _ in priced)
    return tuple(c for c in analysis.sol.caveats if c != LENGTHS or masked)


def _is_masked(view: Any) -> bool:
    return bool(view.attrs.get("mask")) or len(view.inputs) > 3


def _floor(analysis: Analysis, caveats: Sequence[str]) -> float | None:
    """What stands where less arithmetic than was counted may do."""
    sol = analysis.sol
    if not caveats:
        return sol.time_s
    return sol.floor_time_s if LENGTHS in caveats else sol.counted_floor_s


def _io_bounds(
    analysis: Analysis, priced: Sequence[tuple[Any, Any, Any]]
) -> tuple[tuple[IoBound, ...], list[str]]:
    """Of each op; the traffic of a whole is at least that of any of them."""
    kept = on_chip(analysis.hardware).capacity_bytes
    found = [
        one
        for op, view, _ in priced
        if (one := io_bound(view, op.module or op.name or op.kind, kept)) is not None
    ]
    said = {note for _, view, _ in priced if (note := attention_note(view, kept))}
    top = sorted(found, key=lambda b: -b.traffic_bytes)[:1]
    above = [b for b in top if b.traffic_bytes > analysis.sol.traffic_bytes]
    notes = [
        f"{b.op}: with {format_si(b.on_chip_bytes, 'B')} on chip at least "
        f"{format_si(b.traffic_bytes, 'B')} cross the memory, {b.formula} ({b.source})."
        for b in above
    ]
    return tuple(top), [*notes, *sorted(said)]


def _ceilings(analysis: Analysis, measured: Analysis | None) -> str:
    own = all(c.kind is CeilingKind.MEASURED for c in analysis.hardware.ceilings)
    first = "measured" if own else "datasheet"
    return first if own or measured is None else "datasheet and measured"


def _coverage(analysis: Analysis) -> list[str]:
    if not analysis.unmodelled:
        return []
    kinds = ", ".join(sorted(analysis.unmodelled))
    return [
        f"no formula for {kinds} (coverage {analysis.coverage:.0%}): the limit leaves them out, so "
        "that it is still one."
    ]
