"""A simulation of serving: percentiles, goodput, queue, over time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from gambrel.llm.serving.outcomes import Attempt, Simulation, Spread
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
from gambrel.report.builders.serving import engine_of
from gambrel.report.options import Options
from gambrel.report.terms import range_text
from gambrel.report.text import cut
from gambrel.units import format_count, format_number, format_percent, format_si

#: Layouts of a search that are listed.
_TRIED: Final = 12


def document(record: Simulation, _options: Options) -> Document:
    """The verdict leads, then the percentiles."""
    return Document(
        title=f"{record.model}: {record.load}",
        answer=_answer(record),
        style="warning" if record.met is False else "",
        sections=sections(
            section(_latencies(record)),
            section(_facts(record)),
            section(_tried(record)),
            section(Notes(heading="Start it with", items=record.commands)),
            assumed(record.assumptions),
        ),
        source=f"simulated request by request with the expected times of {record.model}'s steps",
        figures=tuple(_key_figures(record)),
    )


def _key_figures(record: Simulation) -> Iterator[KeyFigure]:
    o = record.outcome
    for label, spread, about in (
        ("TTFT p99", o.ttft, "from arrival to the first token"),
        ("TPOT p99", o.tpot, "per token after the first"),
    ):
        if spread is not None:
            yield KeyFigure(
                label=label,
                text=format_si(spread.p99_s, "s", 3),
                note=f"p50 {format_si(spread.p50_s, 's', 3)}",
                formula=about,
            )
    yield KeyFigure(
        label="throughput",
        text=f"{rate_text(o.tokens_per_s)} tokens/s",
        note=f"{rate_text(o.requests_per_s)} requests/s",
        formula="output tokens of all requests / time from first arrival to last token",
    )
    if o.attained is not None:
        yield KeyFigure(
            label="meet the target",
            text=format_percent(o.attained),
            note="of all requests",
            formula="requests within every limit / all requests",
        )
    yield KeyFigure(
        label="busy",
        text=format_percent(o.utilization),
        note="share of the time in steps",
        formula="time in steps / time simulated, mean of the replicas",
    )


def _answer(record: Simulation) -> tuple[str, ...]:
    o = record.outcome
    split = "one device" if record.devices == 1 else str(record.sharding)
    return (
        f"{record.devices} x {record.device}, {split}, {record.precision}: {_verdict(record)}",
        f"TTFT {_tail(o.ttft)}; TPOT {_tail(o.tpot)}; whole answer {_tail(o.total)}",
        f"{rate_text(o.requests_per_s)} requests/s, {rate_text(o.tokens_per_s)} tokens/s"
        f"{_range(record)}, {rate_text(o.tokens_per_s / record.devices)} per device"
        f"{_cost(record)}; {engine_of(record)}",
    )


def _range(record: Simulation) -> str:
    """Of the rate, where the steps set it: less time in them is more output."""
    step, rate = record.step, record.outcome.tokens_per_s
    if step is None or record.paced:
        return ""
    low, high = (rate_text(rate * step.value / end) for end in (step.high, step.low))
    return f" ({low} to {high}, {step.confidence} confidence)"


def _between(record: Simulation) -> str:
    """The range of a duration that the steps set."""
    step = record.step
    if step is None or record.paced:
        return ""
    low, high = (
        _span(record.outcome.duration_s * end / step.value) for end in (step.low, step.high)
    )
    return f" ({low} to {high})"


def _steps(record: Simulation) -> str:
    step = record.step
    if step is None:
        return "by the roofline alone; no expected time is known"
    low, high = (format_number(end / step.value, 3) for end in (step.low, step.high))
    return (
        f"{format_si(step.value, 's', 3)} each at the mean number in flight; steps and TPOT {low} "
        f"to {high} times as long ({step.confidence} confidence: {step.reason})"
    )


def _first(record: Simulation) -> str:
    first = record.ttft
    if first is None:
        return "by the roofline alone; no expected time is known"
    mean = format_si(first.value, "s", 3)
    return f"mean {mean} ({range_text(first)}, {first.confidence} confidence)"


def _verdict(record: Simulation) -> str:
    if record.met is None:
        return f"{format_count(record.outcome.requests, 'request')} served"
    target = record.target
    parts = [
        f"{name} {format_si(limit, 's', 3)}"
        for name, limit in (("TTFT", target.ttft_s), ("TPOT", target.tpot_s))
        if limit is not None
    ]
    verb = "meets" if record.met else "misses"
    return f"{verb} {' and '.join(parts)} at p{record.percentile}"


def _cost(record: Simulation) -> str:
    cost = record.cost_per_million
    return "" if cost is None else f", {format_number(cost, 4)} per 1M output tokens"


def _energy(record: Simulation) -> str:
    if record.energy_j_per_token is None:
        return "unknown"
    return f"{format_si(record.energy_j_per_token, 'J', 3)} per output token while it runs"


def _tail(spread: Spread | None) -> str:
    if spread is None:
        return "none, answers have one token"
    return f"p50 {format_si(spread.p50_s, 's', 3)}, p99 {format_si(spread.p99_s, 's', 3)}"


def _latencies(record: Simulation) -> DataTable:
    o = record.outcome
    rows = [("TTFT", o.ttft), ("TPOT", o.tpot), ("whole answer", o.total)]
    return table_of(
        [(name, spread) for name, spread in rows if spread is not None],
        col("latency", lambda r: r[0], key="latency_of"),
        col("mean", lambda r: r[1].mean_s, seconds, key="mean_s"),
        col("p50", lambda r: r[1].p50_s, seconds, key="p50_s"),
        col("p90", lambda r: r[1].p90_s, seconds, key="p90_s"),
        col("p99", lambda r: r[1].p99_s, seconds, key="p99_s"),
        all=True,
    )


def _facts(record: Simulation) -> FactList:
    o, a = record.outcome, record.outcome.activity
    goodput = (
        "no target was given"
        if o.goodput_per_s is None or o.attained is None
        else f"{rate_text(o.goodput_per_s)} requests/s meet the target, "
        f"{format_percent(o.attained)} of all"
    )
    return FactList(
        heading="Run",
        items=(
            ("Goodput", goodput),
            ("Decode steps", _steps(record)),
            ("TTFT", _first(record)),
            ("Requests", f"{o.requests:,} in {_span(o.duration_s)}{_between(record)}"),
            ("Energy", _energy(record)),
            (
                "Queue",
                f"up to {o.most_waiting:,} waiting for a replica; {o.preemptions:,} preempted",
            ),
            (
                "In flight",
                f"up to {max(a.running):,.0f} requests, "
                f"{max(a.running) / record.sharding.data:,.0f} per replica",
            ),
            (
                "Cache",
                f"up to {format_percent(max(a.cache))} in use; steps run "
                f"{format_percent(o.utilization)} of the time",
            ),
        ),
    )


def _span(seconds: float) -> str:
    return f"{seconds:,.0f} s" if seconds >= 100 else format_si(seconds, "s", 3)


def _tried(record: Simulation) -> DataTable:
    some = 0 < record.tried_with < record.outcome.requests
    with_some = f", with the first {record.tried_with:,} requests" if some else ""
    shown = sorted(record.tried, key=lambda t: (bool(t.reason), not t.met, t.sharding.devices))
    return table_of(
        shown[:_TRIED],
        col("devices", "sharding.devices", str, align="right"),
        col("split", lambda t: str(t.sharding), key="layout"),
        col(f"TTFT p{record.percentile}", "ttft_s", seconds),
        col(f"TPOT p{record.percentile}", "tpot_s", seconds),
        col("target", _why, key="reason", minimum=16, shorten=cut),
        heading=f"Layouts that were tried{with_some}: {len(record.tried)}",
        all=True,
    )


def _why(attempt: Attempt) -> str:
    return attempt.reason or ("met" if attempt.met else "missed")


def content(record: Simulation, _options: Options | None = None) -> dict[str, Any]:
    """The record with its devices and cost."""
    return {
        **msgspec.to_builtins(record),
        "layout": str(record.sharding),
        "devices": record.devices,
        "cost_per_million": record.cost_per_million,
    }
