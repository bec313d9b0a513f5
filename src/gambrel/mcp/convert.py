"""From the records of gambrel to what the tools return."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from gambrel.mcp import outputs as out
from gambrel.report.text import clean

if TYPE_CHECKING:
    from gambrel.advise.compare import Row
    from gambrel.advise.select import Candidate
    from gambrel.advise.whatif import Difference, Point, Side
    from gambrel.analysis.measures import Estimate
    from gambrel.analysis.result import Analysis, OpResult
    from gambrel.device.listing import DeviceRow
    from gambrel.device.model import Device


def command(name: str, *words: str, **options: Any) -> str:
    """The command line that asks the same; None, False and empty options are left out."""
    found = ["gambrel", *name.split(), *words]
    for option, value in options.items():
        flag = f"--{option.rstrip('_').replace('_', '-')}"
        if value is True:
            found.append(flag)
        elif isinstance(value, Mapping):
            for key, each in value.items():
                found += [flag, f"{key}={each}"]
        elif isinstance(value, (list, tuple)):
            for each in value:
                found += [flag, str(each)]
        elif value not in (None, False, ""):
            found += [flag, str(value)]
    return shlex.join(found)


def plain(record: msgspec.Struct) -> Any:
    """A record as dicts and lists."""
    return msgspec.to_builtins(record)


def analysis_out(analysis: Analysis, asked: str, top: int) -> out.AnalysisOut:
    """An analysis with its ``top`` slowest ops."""
    total = analysis.total
    expected = analysis.expected_time_s
    ranked = sorted(analysis.folded(), key=lambda row: -(row.measures.roofline_time_s or 0.0))
    return out.AnalysisOut(
        command=asked,
        model=clean(analysis.model.name),
        hardware=analysis.hardware.id,
        precision=analysis.model.precision,
        precision_reason=analysis.model.precision_reason,
        sizes=dict(analysis.model.symbols),
        runtime=analysis.runtime,
        flops=total.flops,
        traffic_bytes=total.traffic_bytes,
        arithmetic_intensity=_finite(total.arithmetic_intensity),
        ridge_point=analysis.ridge_point,
        bound=analysis.bound,
        roofline_time_s=analysis.roofline_time_s,
        expected=_expected(expected) if expected else None,
        compute_utilization=total.compute_utilization,
        memory_utilization=total.memory_utilization,
        coverage=analysis.coverage,
        memory_bytes=analysis.footprint.total_bytes,
        fits=analysis.footprint.fits,
        top_ops=[_op(row) for row in ranked[:top]],
        assumptions=texts(analysis.assumptions),
        warnings=texts(analysis.warnings),
    )


def _expected(estimate: Estimate) -> out.Expected:
    return out.Expected(
        value_s=estimate.value,
        low_s=estimate.low,
        high_s=estimate.high,
        confidence=estimate.confidence,
        reason=estimate.reason,
    )


def _op(row: OpResult) -> out.OpOut:
    m = row.measures
    return out.OpOut(
        name=clean(row.name),
        kind=clean(row.kind),
        count=row.count,
        flops=m.flops,
        traffic_bytes=m.traffic_bytes,
        bound=m.bound,
        roofline_time_s=m.roofline_time_s,
        expected_time_s=m.expected_time_s.value if m.expected_time_s else None,
        time_share=m.time_share,
    )


def row_out(row: Row, metrics: Iterable[str]) -> out.RowOut:
    """A row with the figures of some metrics."""
    wanted = set(metrics)
    data = plain(row)
    data["model"] = clean(row.model)
    data["figures"] = {name: data["figures"][name] for name in row.figures if name in wanted}
    return out.RowOut.model_validate(data)


def candidate_out(candidate: Candidate, metrics: Iterable[str]) -> out.CandidateOut:
    """A device with its verdict."""
    return out.CandidateOut(
        verdict=candidate.verdict.value,
        reason=candidate.reason,
        strain=candidate.strain,
        met_if=candidate.met_if,
        row=row_out(candidate.row, metrics),
    )


def side_out(point: Point) -> out.SideOut:
    """The whole on one side of a what-if."""
    total = point.total
    return out.SideOut(
        hardware=point.hardware,
        precision=point.precision,
        runtime=point.runtime,
        sizes=point.sizes,
        memory_bytes=point.memory_bytes,
        fits=point.fits,
        flops=total.flops,
        traffic_bytes=total.traffic_bytes,
        bound=total.bound,
        roofline_time_s=total.roofline_time_s,
        expected_time_s=total.expected_time_s.value if total.expected_time_s else None,
    )


def difference_out(found: Difference) -> out.DifferenceOut:
    """An op on both sides of a what-if."""

    def parts(side: Side | None) -> tuple[float | None, str | None]:
        return (side.time_s, side.bound) if side else (None, None)

    before, after = parts(found.before), parts(found.after)
    return out.DifferenceOut(
        name=clean(found.name),
        time_before_s=before[0],
        time_after_s=after[0],
        bound_before=before[1],
        bound_after=after[1],
    )


def device_out(row: DeviceRow) -> out.DeviceOut:
    """A device as in the list."""
    return out.DeviceOut.model_validate(plain(row))


def detail_out(device: Device) -> out.DeviceDetailOut:
    """Everything published about a device."""
    from gambrel.device.explain import explain
    from gambrel.device.levels import byte_per_s, capacity_bytes

    return out.DeviceDetailOut(
        architecture=device.architecture,
        ceilings=[
            out.CeilingOut(
                engine=c.engine,
                dtype=c.dtype,
                flop_per_s=c.flop_per_s,
                sparse_flop_per_s=c.sparse_flop_per_s,
                accumulate=c.accumulate,
                source=c.source.title,
                source_url=c.source.url,
                confidence=c.source.confidence,
            )
            for c in device.ceilings
        ],
        memory=[
            out.LevelOut(
                name=m.name,
                capacity_bytes=capacity_bytes(device, m),
                byte_per_s=byte_per_s(device, m),
                technology=m.technology,
            )
            for m in device.memory
        ],
        explained=texts(explain(device)),
        unknown=list(device.unknown),
    )


def texts(sentences: Sequence[str]) -> list[str]:
    """Sentences without control characters: parts of them may come from a file."""
    return [clean(text) for text in sentences]


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
