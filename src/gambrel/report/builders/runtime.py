"""One runtime: what it does, where it is the default, what is known of its times."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gambrel.report.blocks import (
    DataTable,
    Document,
    FactList,
    col,
    count,
    seconds,
    section,
    sections,
    share,
    table_of,
)
from gambrel.report.options import Options
from gambrel.report.text import cut
from gambrel.units import format_capacity, format_percent

if TYPE_CHECKING:
    from gambrel.runtimes.model import Runtime, States


def document(found: Runtime, _options: Options) -> Document:
    """What it is, then its evidence."""
    return Document(
        title=f"{found.name} ({found.id})",
        answer=(found.about,),
        sections=sections(
            section(FactList(items=tuple(_facts(found)))),
            section(_hosts(found)),
            section(_evidence(found)),
            section(_shown(found)),
        ),
    )


def _facts(found: Runtime) -> Iterator[tuple[str, str]]:
    yield "Kernels", found.kernels.value
    yield "Runs on", ", ".join(found.runs_on) or "any device"
    yield "Formats", ", ".join(found.formats) or "those of the device"
    yield from _special(found)
    if found.aliases:
        yield "Also called", ", ".join(found.aliases)
    if found.graph:
        yield "Graph", "kernels are launched as one graph"
    residency = found.residency
    if residency is None:
        yield "On chip", "nothing stays on chip between kernels"
    else:
        size = residency.group_bytes
        room = "the device's on-chip memory" if size is None else format_capacity(size)
        yield "On chip", f"{room} keeps intermediates of a group ({residency.source.title})"
    rules = found.workspace
    if rules is not None:
        where = f"{rules.category} devices of {' and '.join(rules.vendors)}"
        what = f"known for kernels in {', '.join(rules.formats)} on {where}"
        yield "Workspace", f"{what} ({rules.source.title})"
    if found.host_ops is not None:
        rest = ", and everything after the first" if found.host_ops.rest else ""
        taken = cut(", ".join(found.host_ops.supported), 200)
        yield "Host", f"runs other ops than {taken}{rest} ({found.host_ops.source.title})"
    service = found.service
    if service is not None:
        layer, step = seconds(service.eager_layer_s), seconds(service.step_s)
        front = service.frontend
        admits = "; a request waits until its whole answer has room in the cache"
        own = service.alone_layer_s
        alone = "" if own is None else f" ({seconds(own)} with no request beside)"
        long = f" and more than {service.graph_tokens:,} in all" if service.graph_tokens else ""
        yield (
            "Engine",
            f"steps with prompt tokens{long} at least {layer} per layer{alone}; host time {step} "
            f"per step and {seconds(service.request_s)} per request in it; front end per request "
            f"{seconds(front.alone_s)}, {seconds(front.token_s)} per token of its prompt and up to "
            f"{seconds(front.beside_s)} beside others"
            f"{admits if service.reserves_answers else ''}{_divided(service.states)} "
            f"({service.source.title})",
        )
    for default in found.default_for:
        formats = f" in {', '.join(default.formats)}" if default.formats else ""
        yield "Default for", f"{', '.join(default.devices)}{formats}"


def _special(found: Runtime) -> Iterator[tuple[str, str]]:
    """What its kernels do otherwise than most, and where."""
    if found.halves:
        where = ", ".join(found.halves)
        yield (
            "In 16 bits",
            f"networks in fp32, on {where} with a rate in fp16, unless fp32 is asked for",
        )
    if found.narrow_sums:
        yield "Sums", "matmuls in fp16 are summed in fp16 where the device is faster so"
    if found.rounds_for_mxfp4:
        pairs = ", ".join(found.pairs_mxfp4)
        both = f"; of dense products on {pairs} in mxfp4" if pairs else ""
        yield "mxfp4", f"activations in 8 bits where a matrix engine has four{both}"
    if found.fused_delta_rule:
        yield "Delta rule", f"prompts by one kernel on {', '.join(found.fused_delta_rule)}"


def _divided(states: States | None) -> str:
    """How memory is divided for models that keep recurrent states."""
    if states is None:
        return ""
    share = format_percent(states.share)
    return f"; recurrent states take {share} of the cache memory, {states.slots} per request"


def _hosts(found: Runtime) -> DataTable:
    return table_of(
        found.host,
        col("per launch", "per_launch_s", seconds),
        col("low", "low_s", seconds),
        col("high", "high_s", seconds),
        col("per run", "per_run_s", seconds),
        col("on", lambda h: ", ".join(h.runs_on) or "any", priority=1),
        col("source", "source.title", priority=2, minimum=20, shorten=cut),
        heading="Host",
        all=True,
    )


def _shown(found: Runtime) -> DataTable:
    """Held-out errors, which decide what a prediction may be called."""
    from gambrel.analysis.estimate import packaged
    from gambrel.analysis.estimate.shown import shares_shown, shown_of

    base = packaged()
    rows = (*shown_of(found.constants, base), *shares_shown(found.id, base))
    return table_of(
        rows,
        col("class of op", "what", minimum=10, shorten=cut),
        col("formats", "formats", priority=2, minimum=8, shorten=cut),
        col("device", "device", minimum=14, shorten=cut),
        col("rows", "rows", count),
        col("error", "error", share),
        col("inside range", "inside", share),
        col("at best", "confidence", priority=1),
        heading="Errors on rows that were not fitted",
        note="error: mean absolute error; inside range: share of these rows inside the range.",
        all=True,
    )


def _evidence(found: Runtime) -> DataTable:
    rows = found.evidence
    if not rows and not found.constants:
        return DataTable(columns=(), note="No measured rows: its expected times are unknown.")
    return table_of(
        rows,
        col("what", "what", minimum=20, shorten=cut),
        col("rows", "rows", count),
        col("error", "error", share),
        col("source", "source.title", priority=1, key="source", minimum=20, shorten=cut),
        col("date", "source.date", priority=3),
        col("note", "note", priority=2, minimum=20, shorten=cut),
        heading="Evidence",
        all=True,
    )
