"""One runtime: what it does, where it is the default, what is known of its times."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gambrel.report.blocks import (
    DataTable,
    Document,
    FactList,
    count,
    figures,
    seconds,
    section,
    sections,
    share,
    words,
)
from gambrel.report.options import Options
from gambrel.report.text import cut
from gambrel.units import format_capacity

if TYPE_CHECKING:
    from gambrel.runtimes.model import Runtime


def document(found: Runtime, _options: Options) -> Document:
    """What it is, then its evidence."""
    return Document(
        title=f"{found.name} ({found.id})",
        answer=(found.about,),
        sections=sections(
            section(FactList(items=tuple(_facts(found)))),
            section(_hosts(found)),
            section(_evidence(found)),
        ),
    )


def _facts(found: Runtime) -> Iterator[tuple[str, str]]:
    yield "Kernels", found.kernels.value
    yield "Runs on", ", ".join(found.runs_on) or "any device"
    yield "Formats", ", ".join(found.formats) or "those of the device"
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
    for default in found.default_for:
        formats = f" in {', '.join(default.formats)}" if default.formats else ""
        yield "Default for", f"{', '.join(default.devices)}{formats}"


def _hosts(found: Runtime) -> DataTable | None:
    if not found.host:
        return None
    return DataTable(
        heading="Host",
        columns=(
            figures("per launch", (h.per_launch_s for h in found.host), seconds),
            figures("low", (h.low_s for h in found.host), seconds),
            figures("high", (h.high_s for h in found.host), seconds),
            figures("per run", (h.per_run_s for h in found.host), seconds),
            words("on", (", ".join(h.runs_on) or "any" for h in found.host), priority=1),
            words(
                "source", (h.source.title for h in found.host), priority=2, minimum=20, shorten=cut
            ),
        ),
        all=True,
    )


def _evidence(found: Runtime) -> DataTable:
    rows = found.evidence
    if not rows:
        return DataTable(columns=(), note="No measured rows: its expected times are unknown.")
    return DataTable(
        heading="Evidence",
        columns=(
            words("what", (e.what for e in rows), "what", minimum=20, shorten=cut),
            figures("rows", (e.rows for e in rows), count, "rows"),
            figures("error", (e.error for e in rows), share, "error"),
            words(
                "source",
                (e.source.title for e in rows),
                "source",
                priority=1,
                minimum=20,
                shorten=cut,
            ),
            words("date", (e.source.date for e in rows), "date", priority=3),
            words("note", (e.note for e in rows), "note", priority=2, minimum=20, shorten=cut),
        ),
        all=True,
    )
