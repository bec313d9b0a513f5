"""Metrics from results on disk: every kind of JSON that gambrel writes, and plain lists."""

from __future__ import annotations

import json
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
    for read in (_whole, _by_line):
        for decode in (msgspec.json.decode, json.loads):  # the latter knows NaN and Infinity
            try:
                data = read(content, decode)
            except (ValueError, msgspec.DecodeError, RecursionError):
                continue
            return None if isinstance(data, dict) and "traceEvents" in data else data
    return None


def _whole(content: bytes, decode: Callable[[bytes], Any]) -> Any:
    return decode(content)


def _by_line(content: bytes, decode: Callable[[bytes], Any]) -> Any:
    return [decode(line) for line in content.splitlines() if line.strip()]


def _metric(
    name: str, key: str, samples: Any, path: Path, *, measured: bool, machine: str = ""
) -> GateMetric:
    values = samples if isinstance(samples, list) else [samples]
    return GateMetric(
        name=f"{name} {key}",
        samples=tuple(float("nan") if v is None else float(v) for v in values),
        unit=unit_of(key) or "",
        measured=measured,
        source=path.name,
        machine=machine,
    )


def _of_analysis(data: dict[str, Any], path: Path) -> Iterator[GateMetric]:
    model, total = data["model"], data["total"]
    sizes = "".join(f" {k}={v}" for k, v in model.get("symbols", {}).items())
    hardware = data["hardware"]
    device = hardware.get("id", "") if isinstance(hardware, dict) else hardware
    runtime = data["runtime"]
    run = runtime if isinstance(runtime, str) else ""
    name = f"{model['name']}{sizes} {model['precision']} {device} {run}".strip()
    for key in _TOTAL:
        if total.get(key) is not None:
            value = total[key]
            value = value["value"] if isinstance(value, dict) else value
            yield _metric(name, key, value, path, measured=False)


def _of_profile(data: dict[str, Any], path: Path) -> Iterator[GateMetric]:
    model, totals = data["model"], data["totals"]
    name = f"{model['name']} {model['precision']} profile"
    machine = str(data["hardware"].get("id", "")).removesuffix("-measured")
    yield _metric(name, "plain_s", totals["plain_s"], path, measured=True, machine=machine)
    # Two models of one name and of different work are told apart by this one.
    yield _metric(name, "computed_flops", totals["computed_flops"], path, measured=False)


def _of_judgement(data: dict[str, Any], path: Path) -> Iterator[GateMetric]:
    """Only a candidate that was run is known to have been timed on the machine of the gate."""
    name = f"{data['reference']} {data['hardware']}"
    machine = "" if data.get("trial") else data["hardware"]
    for key in ("measured_time_s", "score"):
        yield _metric(name, key, data[key], path, measured=True, machine=machine)


def _of_plan(data: dict[str, Any], path: Path) -> Iterator[GateMetric]:
    point = (data.get("best") or [{}])[0]
    asked = data["requests"]
    name = f"{data['model']} serve-plan {asked['input_tokens']}+{asked['output_tokens']}"
    for key in _PLAN:
        if point.get(key) is not None:
            yield _metric(name, key, point[key], path, measured=False)


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
        if not values or not all(type(v) in (int, float, type(None)) for v in values):
            raise FileFormatError(f"{path}: {row['name']}: its samples are not numbers.")
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

    recorded = read([path])
    more: dict[str, Any] = {"measured": True, "machine": recorded.device_name}
    times: dict[str, list[float]] = {}
    for sample in recorded.launches:
        if sample.time_s is not None:
            times.setdefault(sample.name, []).append(sample.time_s / max(sample.count, 1))
    total = sum(map(sum, times.values()))
    if times:
        yield _metric("all kernels", "time_s", total, path, **more)
    for name, found in times.items():
        yield _metric(name, "time_s", found, path, **more)


_RULES: Final[dict[str, Callable[[Any, Path], Iterator[GateMetric]]]] = {
    "gambrel/analysis": _of_analysis,
    "gambrel/profile": _of_profile,
    "gambrel/judgement": _of_judgement,
    "gambrel/serve-plan": _of_plan,
}
