"""Prefill and decode on devices of their own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from gambrel import roofline
from gambrel.llm.serving.split_records import ServingPool, SplitPlan
from gambrel.report.blocks import (
    DataTable,
    Document,
    FactList,
    KeyFigure,
    assumed,
    col,
    rate_text,
    section,
    sections,
    table_of,
)
from gambrel.report.builders.serving import engine_of
from gambrel.report.options import Options
from gambrel.units import format_number, format_percent, format_si


def document(plan: SplitPlan, _options: Options) -> Document:
    """The ratio leads, then both pools."""
    return Document(
        title=f"{plan.model}: {plan.requests.input_tokens:,} tokens in, "
        f"{plan.requests.output_tokens:,} out, prefill and decode apart",
        answer=_answer(plan),
        sections=sections(
            section(_pools(plan)),
            section(_facts(plan)),
            assumed(plan.assumptions),
        ),
        source="expected times of the prefill and decode steps of these layouts",
        figures=tuple(_key_figures(plan)),
    )


def _key_figures(plan: SplitPlan) -> Iterator[KeyFigure]:
    yield KeyFigure(
        label="throughput",
        text=f"{rate_text(plan.tokens_per_s_per_device)} tokens/s",
        note=f"per device; {rate_text(plan.tokens_per_s)} in all",
        formula="requests/s x output tokens / devices",
    )
    yield KeyFigure(
        label="TTFT",
        text=format_si(plan.ttft_s, "s", 3),
        note=f"waiting {format_si(plan.wait_s, 's', 3)}",
        formula="waiting for other prompts + prefill + transfer of keys and values",
    )
    yield KeyFigure(
        label="TPOT",
        text=format_si(plan.tpot_s, "s", 3),
        note=engine_of(plan),
        formula="time of a decode step with the requests in flight",
    )
    yield KeyFigure(
        label="requests",
        text=f"{rate_text(plan.requests_per_s)}/s",
        note="both pools together",
        formula="the smaller of what the two pools serve",
    )
    yield KeyFigure(
        label="devices",
        text=f"{plan.devices:,}",
        note=f"{plan.prefill.devices:,} prefill, {plan.decode.devices:,} decode",
        formula="devices of a replica x replicas, of both pools",
    )


def _answer(plan: SplitPlan) -> tuple[str, ...]:
    p, d = plan.prefill, plan.decode
    cost = plan.cost_per_million
    price = "" if cost is None else f", {format_number(cost, 4)} per 1M output tokens"
    return (
        f"{p.sharding.data} prefill and {d.sharding.data} decode replicas on {plan.devices} "
        f"devices, {plan.precision}",
        f"TTFT {format_si(plan.ttft_s, 's', 3)}; TPOT {format_si(plan.tpot_s, 's', 3)}; "
        f"{engine_of(plan)}",
        f"{rate_text(plan.requests_per_s)} requests/s, {rate_text(plan.tokens_per_s)} tokens/s, "
        f"{rate_text(plan.tokens_per_s_per_device)} per device{price}",
    )


def _pools(plan: SplitPlan) -> DataTable:
    rows: list[tuple[str, ServingPool]] = [("prefill", plan.prefill), ("decode", plan.decode)]
    return table_of(
        rows,
        col("pool", lambda r: r[0]),
        col("devices", lambda r: f"{r[1].devices} x {r[1].device}", minimum=12),
        col("split", lambda r: str(r[1].sharding), key="layout"),
        col("in flight", lambda r: f"{r[1].batch:,} per replica", None, key="batch"),
        col("requests/s at most", lambda r: r[1].requests_per_s, rate_text, key="requests_per_s"),
        all=True,
    )


def _facts(plan: SplitPlan) -> FactList:
    rate = plan.shared_tokens_per_s_per_device
    if rate is None:
        shared = "no layout meets the targets with both on the same devices"
    else:
        gain = roofline.ratio(plan.tokens_per_s_per_device, rate) - 1
        shared = (
            f"{rate_text(rate)} tokens/s per device with both on the same devices: apart "
            f"is {format_percent(abs(gain))} {'more' if gain >= 0 else 'less'}"
        )
    own_s = plan.ttft_s - plan.wait_s - plan.transfer_s
    return FactList(
        heading="Where TTFT goes",
        items=(
            ("Prefill", f"{format_si(own_s, 's', 3)}, the engine's front end included"),
            ("Waiting", f"up to {format_si(plan.wait_s, 's', 3)} for other prompts"),
            ("Transfer", f"{format_si(plan.transfer_s, 's', 3)} for keys and values of a prompt"),
            ("Shared", shared),
        ),
    )


def content(plan: SplitPlan, _options: Options | None = None) -> dict[str, Any]:
    """The plan with its devices."""
    return {
        **msgspec.to_builtins(plan),
        "devices": plan.devices,
        "tokens_per_s_per_device": plan.tokens_per_s_per_device,
    }
