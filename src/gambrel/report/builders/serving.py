"""A serving plan: the best layouts, why the next loses, what was refused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from gambrel.analysis.measures import Estimate
from gambrel.llm.serving.outcomes import Simulation
from gambrel.llm.serving.records import Choice, OperatingPoint, Plan, Refusal
from gambrel.llm.serving.split_records import SplitPlan
from gambrel.report.blocks import (
    DataTable,
    Document,
    FactList,
    KeyFigure,
    Notes,
    assumed,
    col,
    rate_text,
    seconds,
    section,
    sections,
    table_of,
)
from gambrel.report.options import Options
from gambrel.report.terms import LIMITERS, confidence_text, range_text
from gambrel.units import format_capacity, format_count, format_number, format_percent, format_si

#: Refusals and points of the front that are listed.
_REFUSALS: Final = 5
#: Layouts of one refusal that are named.
_LAYOUTS: Final = 4
#: In place of the names of several devices.
_DEVICE: Final = "the device"
_FRONT: Final = 8


def document(plan: Plan, _options: Options) -> Document:
    """The best layout leads."""
    losers = tuple(_why(i, c) for i, c in enumerate(plan.best) if c.why_not)
    return Document(
        title=_title(plan),
        answer=_answer(plan),
        style="" if plan.best else "warning",
        sections=sections(
            section(_best(plan)),
            section(_details(plan.best[0]) if plan.best else None),
            section(Notes(heading="Start it with", items=_commands(plan))),
            section(Notes(heading="Why not the next", items=losers)),
            section(_front(plan)),
            section(Notes(heading=f"Refused: {len(plan.refused)}", items=tuple(_refusals(plan)))),
            section(Notes(heading="What would fit", items=plan.would_fit)),
            assumed(plan.assumptions),
        ),
        source="expected times of the decode and prefill steps of this layout",
        figures=tuple(_key_figures(plan.best[0])) if plan.best else (),
    )


def _key_figures(best: Choice) -> Iterator[KeyFigure]:
    p = best.point
    yield KeyFigure(
        label="throughput",
        text=f"{rate_text(p.tokens_per_s_per_device)} tokens/s",
        note=f"per device; {rate_text(p.tokens_per_s)} in all",
        formula="output tokens of all requests in flight / time of a decode step, per device",
    )
    for label, time, limit, estimate in (
        ("TPOT", p.tpot_s, p.sol_tpot_s, best.tpot),
        ("TTFT", p.ttft_s, p.sol_ttft_s, best.ttft),
    ):
        yield KeyFigure(
            label=label,
            text=format_si(time, "s"),
            note=f"speed of light {format_si(limit, 's', 3)}",
            formula="time per output token of one request"
            if label == "TPOT"
            else "queue and prefill until the first token",
            confidence=confidence_text(estimate),
        )
    yield KeyFigure(
        label="requests in flight",
        text=f"{p.batch * p.sharding.data:,}",
        note=_limit(p),
        formula="sequences per replica x replicas",
    )
    yield KeyFigure(
        label="limited by",
        text=LIMITERS.get(best.limited_by or "", "unknown"),
        note=f"roofline: {best.bound}-bound" if best.bound else "",
        key="limited_by",
    )


def _title(plan: Plan) -> str:
    r, p = plan.requests, plan.target
    parts = [f"{r.input_tokens:,} tokens in, {r.output_tokens:,} out"]
    if r.cached_tokens:
        parts.append(f"{r.cached_tokens:,} cached")
    if r.concurrency:
        parts.append(f"{r.concurrency:,} in flight")
    if r.per_s:
        parts.append(f"{format_number(r.per_s)} requests/s")
    if p.ttft_s is not None:
        parts.append(f"TTFT at most {format_si(p.ttft_s, 's')}")
    if p.tpot_s is not None:
        parts.append(f"TPOT at most {format_si(p.tpot_s, 's')}")
    parts.append(f"at most {format_count(plan.max_devices, 'device')}")
    return f"{plan.model}: {', '.join(parts)}"


def _answer(plan: Plan) -> tuple[str, ...]:
    if not plan.best:
        if plan.would_fit:
            return ("No layout holds the model.",)
        limits = plan.target.ttft_s, plan.target.tpot_s
        what = (
            "meets the target" if any(x is not None for x in limits) else "serves the load at once"
        )
        return (f"No layout {what}.",)
    best = plan.best[0]
    p = best.point
    price = (
        ""
        if best.cost_per_million is None
        else f", {format_number(best.cost_per_million, 4)} per 1M tokens"
    )
    return (
        f"Best: {p.devices} x {p.device}, {_split(p)}, {p.precision}: "
        f"{rate_text(p.tokens_per_s)} tokens/s, {rate_text(p.tokens_per_s_per_device)} per "
        f"device{price}",
        f"Latency: TPOT {_range(best.tpot, p.tpot_s)}; TTFT {format_si(p.ttft_s, 's', 3)}; "
        f"{engine_of(p)}",
        f"Memory: {_in_flight(p)} in flight, {_limit(p)}; {_fitting(best)}",
    )


def engine_of(record: OperatingPoint | Simulation | SplitPlan) -> str:
    """The engine, or those whose mean is shown."""
    return f"mean of {', '.join(record.mean_of)}" if record.mean_of else record.runtime


def _best(plan: Plan) -> DataTable:
    price = col("per 1M", "cost_per_million", format_number, 1) if plan.prices else None
    return table_of(
        plan.best,
        col("#", lambda c: plan.best.index(c) + 1, str, key="rank"),
        col("layout", lambda c: f"{c.point.devices} x {c.point.device}", None, 1, minimum=12),
        col("split", lambda c: _split(c.point), key="layout"),
        col("format", "point.precision", priority=3, minimum=6),
        col("in flight", lambda c: _in_flight(c.point), None, 2, key="batch", align="right"),
        col("TPOT", "point.tpot_s", seconds),
        col("TTFT", "point.ttft_s", seconds),
        col("tokens/s", "point.tokens_per_s", rate_text, 1),
        col("per device", "point.tokens_per_s_per_device", rate_text),
        price,
        all=True,
    )


def _split(point: OperatingPoint) -> str:
    return "one device" if point.devices == 1 else str(point.sharding)


def _in_flight(point: OperatingPoint) -> str:
    data = point.sharding.data
    return f"{point.batch:,}" if data == 1 else f"{data} x {point.batch:,}"


def _details(choice: Choice) -> FactList:
    p = choice.point
    m = p.memory
    steps = ", ".join(f"{n} {format_percent(s)}" for n, s in choice.shares.items())
    items = (
        (
            "TPOT",
            f"{_range(choice.tpot, p.tpot_s)}; {format_si(p.interference_s, 's', 3)} of it chunked "
            f"prefill interleaved with decode; {format_number(p.tokens_per_s_per_user, 3)} "
            f"tokens/s per user{_bound(choice)}",
        ),
        (
            "TTFT",
            f"{format_si(p.ttft_s, 's', 3)}{_ends(choice.ttft)} = prefill "
            f"{format_si(p.prefill_s, 's', 3)} + queue {format_si(p.queue_s, 's', 3)}; "
            f"{format_si(p.burst_ttft_s, 's', 3)} on average if all in flight arrive together",
        ),
        ("Step", steps),
        (
            "Memory",
            f"{format_capacity(m.weights_bytes)} weights + {format_capacity(m.activations_bytes)} "
            f"activations + {format_capacity(m.sequence_bytes)} per request, {_room(choice)}",
        ),
        ("Energy", _energy(choice)),
    )
    return FactList(heading="Best", items=items)


def _room(choice: Choice) -> str:
    p, m = choice.point, choice.point.memory
    if m.capacity_bytes is None:
        return "of a memory whose capacity is unknown"
    most = "" if choice.max_batch is None else f"at most {choice.max_batch:,} requests per replica"
    tokens = f"{choice.max_context:,} tokens each with {p.batch:,} in flight"
    return (
        f"of {format_capacity(m.usable_bytes)} usable: {', or '.join(filter(None, (most, tokens)))}"
    )


def _fitting(choice: Choice) -> str:
    if choice.max_batch is None:
        return "no known capacity limits how many fit"
    return f"up to {choice.max_batch:,} per replica fit"


def _ends(estimate: Estimate | None) -> str:
    return "" if estimate is None else f" ({range_text(estimate)})"


def _range(estimate: Estimate | None, value: float) -> str:
    if estimate is None:
        return f"{format_si(value, 's', 3)} by the roofline alone; no expected time is known"
    return (
        f"{format_si(estimate.value, 's', 3)} ({range_text(estimate)}, "
        f"{estimate.confidence} confidence: {estimate.reason})"
    )


def _bound(choice: Choice) -> str:
    if choice.roofline_tpot_s is None:
        return ""
    return (
        f"; decode limited by {LIMITERS.get(choice.limited_by or '', 'unknown')}, "
        f"{format_si(choice.roofline_tpot_s, 's', 3)} by the roofline, "
        f"{format_si(choice.point.sol_tpot_s, 's', 3)} at the speed of light"
    )


def _limit(point: OperatingPoint) -> str:
    return {
        "memory": "as many as memory holds",
        "capacity": "the fewest within 10 % of the best rate",
        "tpot": "more would miss the TPOT",
        "ttft": "more would miss the TTFT",
        "concurrency": "as asked",
        "max_requests": "the most that are allowed",
        "throughput": "more would not help",
    }[point.batch_limit]


def _energy(choice: Choice) -> str:
    if choice.energy_j_per_token is not None:
        return f"{format_si(choice.energy_j_per_token, 'J', 3)} per output token"
    missing = choice.energy.missing if choice.energy else ()
    return f"unknown: no published constant for {'; '.join(missing)}" if missing else "unknown"


def _commands(plan: Plan) -> tuple[str, ...]:
    return plan.best[0].commands if plan.best else ()


def _why(index: int, choice: Choice) -> str:
    return f"{index + 1}, {_split(choice.point)}: {choice.why_not}"


def _front(plan: Plan) -> DataTable:
    points = plan.pareto
    shown = points[:: max(1, -(-len(points) // _FRONT))]
    return table_of(
        shown,
        col("tokens/s per user", "tokens_per_s_per_user", rate_text),
        col("per device", "tokens_per_s_per_device", rate_text),
        col("in flight", _in_flight, align="right"),
        col("split", _split),
        col("device", "device", priority=1),
        col("format", "precision", priority=2),
        heading=f"Pareto front: {len(points)} of {len(plan.points)} points, whatever the target",
        all=True,
    )


def _refusals(plan: Plan) -> list[str]:
    """One line for each reason, with the layouts and devices that it is given for."""
    alike: dict[tuple[str, str], list[Refusal]] = {}
    for one in plan.refused:
        reason = one.reason.replace(one.device, _DEVICE)
        alike.setdefault((one.precision, reason), []).append(one)
    shown = list(alike.items())[:_REFUSALS]
    found = [_refusal(reason, several) for (_, reason), several in shown]
    rest = len(plan.refused) - sum(len(several) for _, several in shown)
    return [*found, f"and {rest} more; the JSON has all."] if rest > 0 else found


def _refusal(reason: str, alike: Sequence[Refusal]) -> str:
    devices = list(dict.fromkeys(one.device for one in alike))
    layouts = list(dict.fromkeys(str(one.sharding) for one in alike))
    listed = ", ".join(layouts) if len(layouts) <= _LAYOUTS else f"{len(layouts)} layouts"
    name = devices[0] if len(devices) == 1 else _DEVICE
    where = f"{listed} of {', '.join(devices)}, {alike[0].precision}"
    return f"{where}: {reason.replace(_DEVICE, name)}"


def content(plan: Plan, _options: Options | None = None) -> dict[str, Any]:
    """The plan without the analyses of single steps."""
    names = ("model", "requests", "target", "engine", "max_devices", "prices", "would_fit")
    return {
        **{name: getattr(plan, name) for name in names},
        "best": [_choice(choice) for choice in plan.best],
        "pareto": [_point(point) for point in plan.pareto],
        "refused": [msgspec.to_builtins(r) | {"layout": str(r.sharding)} for r in plan.refused],
        "assumptions": plan.assumptions,
    }


def _point(point: OperatingPoint) -> dict[str, Any]:
    return {
        **msgspec.to_builtins(point),
        "layout": str(point.sharding),
        "devices": point.devices,
        "tokens_per_s_per_device": point.tokens_per_s_per_device,
        "tokens_per_s_per_user": point.tokens_per_s_per_user,
    }


def _choice(choice: Choice) -> dict[str, Any]:
    kept = msgspec.structs.replace(choice, decode=None, prefill=None, energy=None)
    found: dict[str, Any] = msgspec.to_builtins(kept)
    for name in ("decode", "prefill", "energy", "point"):
        found.pop(name)
    for name in ("tpot", "ttft"):  # estimates: the plain names are the point's
        found[f"{name}_expected"] = found.pop(name)
    return {**_point(choice.point), **found}
