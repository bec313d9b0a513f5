"""The cache of a language model as text and as data."""

from __future__ import annotations

from typing import Any

from gambrel.llm.cache_plan import CachePlan
from gambrel.llm.kv import KvCache
from gambrel.report.layout import Column, hanging, line, show, table
from gambrel.report.options import Options
from gambrel.report.text import clean
from gambrel.units import format_capacity

_LABEL = 13


def render(found: CachePlan, options: Options | None = None) -> str:
    """A table by kind of layer, and what fits."""
    options = options or Options()
    cache = found.cache
    heading = (
        f"{clean(cache.model)}: {cache.batch:,} x {cache.context:,} tokens, cache in "
        f"{cache.precision}"
    )
    whole = hanging(_facts(found), _LABEL, "dim")
    return show([[line((heading, "title"))], [_parts(cache, options.columns)], [whole]], options)


def _parts(cache: KvCache, width: int) -> Any:
    parts = cache.parts

    def column(title: str, priority: int, cells: list[str]) -> Column:
        return Column(title=title, cells=tuple(cells), priority=priority)

    names = tuple(p.name for p in parts)
    return table(
        [
            Column(title="layers", cells=names, align="left", minimum=14),
            column("how many", 1, [f"{p.layers:,}" for p in parts]),
            column("B a token", 2, [f"{p.bytes_per_token:,.6g}" for p in parts]),
            column("tokens kept", 3, [f"{p.tokens:,}" for p in parts]),
            column("needed", 0, [format_capacity(p.logical_bytes) for p in parts]),
            column("reserved", 0, [format_capacity(p.allocated_bytes) for p in parts]),
        ],
        width,
    )


def _facts(found: CachePlan) -> list[tuple[str, str]]:
    cache, policy = found.cache, found.cache.policy
    pages = "full pages" if policy.windowed == "full" else "pages of the window"
    facts = [
        (
            "Cache",
            f"{format_capacity(cache.logical_bytes)} needed · "
            f"{format_capacity(cache.allocated_bytes)} reserved in pages of {policy.page} tokens, "
            f"{pages} for windowed layers",
        ),
        (
            "Model",
            f"weights {format_capacity(found.weights_bytes)} · activations of a decode step "
            f"{format_capacity(found.activations_bytes)}",
        ),
    ]
    if found.room is None or found.usable_bytes is None:
        return facts
    room = found.room
    limit = "" if room.model_limit is None else f" (the model's limit is {room.model_limit:,})"
    verdict = "fits" if found.fits else "does not fit"
    facts += [
        ("Device", f"{found.device}: {format_capacity(found.usable_bytes)} usable · {verdict}"),
        (
            "Room",
            f"{format_capacity(max(room.free_bytes, 0))} for the cache: at most {room.batch:,} "
            f"sequences of {cache.context:,} tokens, or {room.context:,} tokens{limit} for "
            f"{cache.batch:,} sequences",
        ),
    ]
    return facts


def to_data(found: CachePlan) -> dict[str, Any]:
    """As plain data for JSON; bytes and tokens."""
    import msgspec

    data: dict[str, Any] = msgspec.to_builtins(found)
    data["fits"] = found.fits
    data["cache"] |= {
        "logical_bytes": found.cache.logical_bytes,
        "allocated_bytes": found.cache.allocated_bytes,
        "bytes_per_token": found.cache.bytes_per_token,
    }
    return {"schema_version": 1, "kind": "kv_cache", **data}
