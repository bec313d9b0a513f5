"""Metrics from results on disk: every kind of JSON that gambrel writes, and plain lists."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from gambrel.advise.gate.records import GateMetric
from gambrel.errors import FileFormatError
from gambrel.fileio import read_bytes
from gambrel.report.units import unit_of

_LARGEST: Final = 256 << 20
#: Figures of an analysis.
_TOTAL: Final = ("expected_time_s", "roofline_time_s", "sol_time_s", "flops", "traffic_bytes")
#: Figures of the best layout of a serving plan.
_PLAN: Final = ("tokens_per_s_per_device", "tokens_per_s_per_user", "ttft_s", "tpot_s")


def metrics_of_file(path: Path) -> tuple[GateMetric, ...]:
    """The metrics of a result.

    Args:
        path: JSON of ``analyze``, ``profile --save``, ``judge`` or ``serve-plan``; JSON or JSON
            lines of ``{"name": ..., "value": ... or "samples": [...], "unit": ...}``; or anything
            that ``gambrel import`` reads.

    Raises:
        FileFormatError: It has no metric.
    """
    data = _decoded(path)
    if data is None:
        found = tuple(_of_trace(path))
    else:
        kind = data.get("type", "") if isinstance(data, dict) else ""
        rule = _RULES.get(kind)
        if rule is None and kind:
            raise FileFormatError(f"{path}: {kind} has no figures that a gate compares.")
        found = tuple((rule or _plain)(data, path))
    if not found:
        raise FileFormatError(f"{path} has no metric.")
    return found


def _decoded(path: Path) -> Any:
    """JSON, or lines of it, as data; None where it is another format."""
    content = read_bytes(path, _LARGEST, "a result")
    try:
        data = msgspec.json.decode(content)
    except msgspec.DecodeError:
        try:
            data = [msgspec.json.decode(line) for line in content.splitlines() if line.strip()]
        except msgspec.DecodeError:
            return None
    if isinstance(data, dict) and "traceEvents" in data:
        return None
    return data


def _metric(name: str, key: str, samples: Any, path: Path, *, measured: bool) -> GateMetric:
    values = samples if isinstance(samples, list) else [samples]
    return GateMetric(
        name=f"{name} {key}",
        samples=tuple(float("nan") if v is None else float(v) for v in values),
        unit=unit_of(key) or "",
        measured=measured,
        source=path.name,
    )


def _of_analysis(data: dict[str, Any], path: Path) -> Iterator[GateMetric]:
    model, total = data["model"], data["total"]
    sizes = "".join(f" {k}={v}" for k, v in model.get("symbols", {}).items())
    hardware = data["hardware"]
    device = hardware.get("id", "") if isinstance(hardware, dict) else hardware
    runtime = data["runtime"]
    name = f"{model['name']}{sizes} {device} {runtime if isinstance(runtime, str) else ''}".strip()
    for key in _TOTAL:
        if total.get(key) is not None:
            value = total[key]
            value = value["value"] if isinstance(value, dict) else value
            yield _metric(name, key, value, path, measured=False)


def _of_profile(data: dict[str, Any], path: Path) -> Iterator[GateMetric]:
    name = f"{data['model']['name']} profile"
    yield _metric(name, "plain_s", data["totals"]["plain_s"], path, measured=True)


def _of_judgement(data: dict[str, Any], path: Path) -> Iterator[GateMetric]:
    name = f"{data['reference']} {data['hardware']}"
    for key in ("measured_time_s", "score"):
        yield _metric(name, key, data[key], path, measured=True)


def _of_plan(data: dict[str, Any], path: Path) -> Iterator[GateMetric]:
    best = (data.get("best") or [{}])[0]
    point = best.get("point", best)
    for key in _PLAN:
        value = point.get(key)
        if isinstance(value, dict):
            value = value.get("value")
        if value is not None:
            yield _metric("serve-plan best", key, value, path, measured=False)


def _plain(data: Any, path: Path) -> Iterator[GateMetric]:
    """Names with values, as other programs write them."""
    if isinstance(data, dict):
        data = [data] if "name" in data else data.get("metrics", [])
    rows = data
    if isinstance(rows, dict):
        rows = [{"name": name, "samples": value} for name, value in rows.items()]
    for row in rows if isinstance(rows, list) else ():
        if not isinstance(row, dict) or "name" not in row:
            raise FileFormatError(f"{path}: a metric needs a name and a value or samples.")
        samples = row.get("samples", row.get("value"))
        values = samples if isinstance(samples, list) else [samples]
        if not values or not all(isinstance(v, (int, float)) or v is None for v in values):
            raise FileFormatError(f"{path}: {row['name']}: its samples are no numbers.")
        yield GateMetric(
            name=str(row["name"]),
            samples=tuple(float("nan") if v is None else float(v) for v in values),
            unit=str(row.get("unit", unit_of(str(row["name"])) or "")),
            measured=bool(row.get("measured", True)),
            source=path.name,
        )


def _of_trace(path: Path) -> Iterator[GateMetric]:
    """The time of each kernel of a trace, a sample a launch, and the whole."""
    from gambrel.traces import read

    launches = read([path]).launches
    times: dict[str, list[float]] = {}
    for sample in launches:
        if sample.time_s is not None:
            times.setdefault(sample.name, []).append(sample.time_s / max(sample.count, 1))
    total = sum(map(sum, times.values()))
    if times:
        yield _metric(path.stem, "kernels time_s", total, path, measured=True)
    for name, found in times.items():
        yield _metric(name, "time_s", found, path, measured=True)


_RULES: Final[dict[str, Callable[[Any, Path], Iterator[GateMetric]]]] = {
    "gambrel/analysis": _of_analysis,
    "gambrel/profile": _of_profile,
    "gambrel/judgement": _of_judgement,
    "gambrel/serve-plan": _of_plan,
}
