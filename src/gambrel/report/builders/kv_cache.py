"""The key/value cache of a language model, by kind of layer, and what fits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from gambrel.llm.cache_plan import CachePlan
from gambrel.llm.kv import KvCache
from gambrel.report.blocks import (
    DataTable,
    Document,
    KeyFigure,
    capacity,
    col,
    count,
    section,
    sections,
    table_of,
)
from gambrel.report.options import Options
from gambrel.units import format_capacity, format_count


def document(found: CachePlan, _options: Options) -> Document:
    """The size leads, then what fits."""
    cache = found.cache
    return Document(
        title=f"{cache.model}: {cache.batch:,} x {cache.context:,} tokens, cache in "
        f"{cache.precision}",
        answer=tuple(_answer(found)),
        sections=sections(
            section(_parts(cache)),
        ),
        source="shapes of the model's configuration; capacity from the device's datasheet",
        figures=tuple(_key_figures(found)),
    )


def _key_figures(found: CachePlan) -> Iterator[KeyFigure]:
    cache, room = found.cache, found.room
    yield KeyFigure(
        label="reserved",
        text=capacity(cache.allocated_bytes),
        note=f"needed {capacity(cache.logical_bytes)}",
        formula="full pages of every sequence, over all layers",
    )
    yield KeyFigure(
        label="per token",
        text=capacity(cache.bytes_per_token),
        note="of a sequence, all layers",
        formula="keys and values: 2 x heads x size of a head x bytes of a number, all layers; "
        "less where layers share or compress them",
    )
    yield KeyFigure(
        label="weights",
        text=capacity(found.weights_bytes),
        formula="parameters x bytes of their format",
    )
    if room is not None:
        yield KeyFigure(
            label="fit at most",
            text=format_count(room.batch, "sequence"),
            note=f"of {cache.context:,} tokens",
            formula="free memory / memory that one sequence reserves",
        )
        yield KeyFigure(
            label="longest",
            text=format_count(room.context, "token"),
            note=f"for {format_count(cache.batch, 'sequence')}",
            formula="longest context whose pages fit beside the weights, at most the model's own",
        )


def _answer(found: CachePlan) -> Iterator[str]:
    cache, policy = found.cache, found.cache.policy
    pages = "full pages" if policy.windowed == "full" else "pages of the window"
    yield (
        f"Cache: {format_capacity(cache.logical_bytes)} needed, "
        f"{format_capacity(cache.allocated_bytes)} reserved in pages of {policy.page} tokens, "
        f"{pages} for windowed layers"
    )
    yield (
        f"Memory: {format_capacity(found.total_bytes)} with weights "
        f"({format_capacity(found.weights_bytes)}) and activations of a decode step "
        f"({format_capacity(found.activations_bytes)})"
    )
    if found.room is None or found.usable_bytes is None:
        return
    room, verdict = found.room, "fits" if found.fits else "does NOT fit"
    limit = "" if room.model_limit is None else f" (the model's limit is {room.model_limit:,})"
    yield f"Device: {verdict} in {format_capacity(found.usable_bytes)} usable of {found.device}"
    yield (
        f"Room: {format_capacity(max(room.free_bytes, 0))} for the cache: at most "
        f"{format_count(room.batch, 'sequence')} of {cache.context:,} tokens, "
        f"or {room.context:,} tokens{limit} for {format_count(cache.batch, 'sequence')}"
    )


def _parts(cache: KvCache) -> DataTable:
    return table_of(
        cache.parts,
        col("layers", "name", minimum=14),
        col("count", "layers", count, 1),
        col("B per token", "bytes_per_token", lambda v: f"{v:,.6g}", 2),
        col("tokens kept", "tokens", count, 3),
        col("needed", "logical_bytes", format_capacity),
        col("reserved", "allocated_bytes", format_capacity),
        all=True,
    )


def content(found: CachePlan, _options: Options | None = None) -> dict[str, Any]:
    """The plan with its sums."""
    data: dict[str, Any] = msgspec.to_builtins(found)
    data |= {"fits": found.fits, "total_bytes": found.total_bytes}
    data["cache"] |= {
        "logical_bytes": found.cache.logical_bytes,
        "allocated_bytes": found.cache.allocated_bytes,
        "bytes_per_token": found.cache.bytes_per_token,
    }
    return data
