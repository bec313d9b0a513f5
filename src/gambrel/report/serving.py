"""A serving plan for a terminal: the best layouts, why the next loses, what was refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from gambrel.analysis.measures import Estimate
from gambrel.llm.serving.records import Choice, Plan, Point
from gambrel.report.layout import Column, line, listed, show, table
from gambrel.report.options import Options
from gambrel.units import format_capacity, format_number, format_percent, format_si

if TYPE_CHECKING:
    from rich.console import RenderableType

#: Refusals and points of the front that are listed.
_REFUSALS = 5
_FRONT = 8


def render(plan: Plan, options: Options | None = None) -> str:
    """The plan as text."""
    options = options or Options()
    blocks: list[Sequence[RenderableType]] = [[line((_title(plan), "bold"))]]
    if plan.best:
        blocks += [
            [table(_columns(plan), options.columns)],
            _details(plan.best[0]),
            listed("Why not the next", [_why(i, c) for i, c in enumerate(plan.best) if c.why_not]),
            _front(plan, options),
        ]
    else:
        blocks.append([line(("Nothing keeps the promise.", "warning"))])
    blocks.append(listed(f"Refused: {len(plan.refused)}", _refusals(plan)))
    if plan.would_fit:
        blocks.append(listed("What would fit", plan.would_fit))
    blocks.append(listed("Assumptions", plan.assumptions))
    return show(blocks, options)


def _title(plan: Plan) -> str:
    r, p = plan.requests, plan.promise
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
    parts.append(f"at most {plan.max_devices} devices")
    return f"{plan.model}: {', '.join(parts)}"


def _columns(plan: Plan) -> list[Column]:
    best = plan.best

    def column(title: str, text: Callable[[Choice], str], priority: int) -> Column:
        return Column(title=title, cells=tuple(map(text, best)), priority=priority)

    columns = [
        Column(title="#", cells=tuple(str(i + 1) for i in range(len(best)))),
        Column(
            title="layout",
            cells=tuple(f"{c.point.devices} x {c.point.device}" for c in best),
            align="left",
            priority=1,
            minimum=12,
        ),
        Column(title="split", cells=tuple(_split(c.point) for c in best), align="left"),
        Column(
            title="format",
            cells=tuple(c.point.precision for c in best),
            align="left",
            priority=3,
            minimum=6,
        ),
        column("in flight", lambda c: _in_flight(c.point), 2),
        column("TPOT", lambda c: format_si(c.point.tpot_s, "s", 3), 0),
        column("TTFT", lambda c: format_si(c.point.ttft_s, "s", 3), 0),
        column("tokens/s", lambda c: format_number(c.point.tokens_per_s, 4), 1),
        column("a device", lambda c: format_number(c.point.tokens_per_s_per_device, 4), 0),
    ]
    if plan.prices:
        columns.append(column("per 1M", lambda c: format_number(c.cost_per_million, 4), 1))
    return columns


def _split(point: Point) -> str:
    return "one device" if point.devices == 1 else str(point.sharding)


def _in_flight(point: Point) -> str:
    data = point.sharding.data
    return f"{point.batch:,}" if data == 1 else f"{data} x {point.batch:,}"


def _details(choice: Choice) -> list[RenderableType]:
    p = choice.point
    m = p.memory
    lines = [
        f"TPOT   {_range(choice.tpot, p.tpot_s)}; {format_si(p.interference_s, 's', 3)} of it "
        f"prompts of others; {format_number(p.tokens_per_s_per_user, 3)} tokens/s a user"
        + _bound(choice),
        f"TTFT   {format_si(p.ttft_s, 's', 3)} = prefill {format_si(p.prefill_s, 's', 3)} + queue "
        f"{format_si(p.queue_s, 's', 3)}; {format_si(p.burst_ttft_s, 's', 3)} on average if all "
        "in flight arrive together",
        f"Step   {', '.join(f'{n} {format_percent(s)}' for n, s in choice.shares.items())}",
        f"Memory {format_capacity(m.weights_bytes)} weights + "
        f"{format_capacity(m.activations_bytes)} activations + {format_capacity(m.sequence_bytes)} "
        f"a request, of {format_capacity(m.usable_bytes)} usable: at most "
        f"{choice.max_batch:,} requests a replica, or {choice.max_context:,} tokens each at "
        f"{p.batch:,}; what stops more: {_limit(p)}",
        f"Energy {_energy(choice)}",
    ]
    return [line(("Best", "bold")), *(line(text) for text in lines)]


def _range(estimate: Estimate | None, value: float) -> str:
    if estimate is None:
        return f"{format_si(value, 's', 3)} by the roofline alone; no expected time is known"
    return (
        f"{format_si(estimate.value, 's', 3)} ({format_si(estimate.low, 's', 3)} to "
        f"{format_si(estimate.high, 's', 3)}, {estimate.confidence} confidence: {estimate.reason})"
    )


def _bound(choice: Choice) -> str:
    if choice.roofline_tpot_s is None:
        return ""
    return (
        f"; decode limited by {choice.limited_by or 'unknown'}, "
        f"{format_si(choice.roofline_tpot_s, 's', 3)} by the roofline, "
        f"{format_si(choice.point.sol_tpot_s, 's', 3)} at the speed of light"
    )


def _limit(point: Point) -> str:
    return {
        "memory": "memory",
        "tpot": "TPOT",
        "ttft": "TTFT",
        "concurrency": "not asked for",
        "throughput": "no more tokens/s",
    }[point.batch_limit]


def _energy(choice: Choice) -> str:
    if choice.energy_j_per_token is not None:
        return f"{format_si(choice.energy_j_per_token, 'J', 3)} an output token"
    missing = choice.energy.missing if choice.energy else ()
    return f"unknown: no published constant for {'; '.join(missing)}" if missing else "unknown"


def _why(index: int, choice: Choice) -> str:
    return f"{index + 1}, {_split(choice.point)}: {choice.why_not}"


def _front(plan: Plan, options: Options) -> list[RenderableType]:
    points = plan.pareto
    step = max(1, -(-len(points) // _FRONT))
    shown = points[::step]
    columns = [
        Column(
            title="tokens/s a user",
            cells=tuple(format_number(p.tokens_per_s_per_user, 3) for p in shown),
        ),
        Column(
            title="a device",
            cells=tuple(format_number(p.tokens_per_s_per_device, 3) for p in shown),
        ),
        Column(title="in flight", cells=tuple(_in_flight(p) for p in shown)),
        Column(title="split", cells=tuple(_split(p) for p in shown), align="left"),
        Column(title="device", cells=tuple(p.device for p in shown), align="left", priority=1),
        Column(title="format", cells=tuple(p.precision for p in shown), align="left", priority=2),
    ]
    head = line(
        ("Pareto front", "bold"), f": {len(points)} of {len(plan.points)} points, promise or not"
    )
    return [head, table(columns, options.columns)]


def _refusals(plan: Plan) -> list[str]:
    found = [
        f"{r.sharding} of {r.device}, {r.precision}: {r.reason}" for r in plan.refused[:_REFUSALS]
    ]
    rest = len(plan.refused) - len(found)
    return [*found, f"and {rest} more; --json has all."] if rest > 0 else found
