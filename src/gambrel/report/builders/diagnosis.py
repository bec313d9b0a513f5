"""A diagnosis: ten lines, the cause that can give back most first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gambrel.analysis.samples.diagnosis import Diagnosis, DiagnosisItem
from gambrel.report.blocks import (
    Document,
    KeyFigure,
    Notes,
    col,
    seconds,
    section,
    sections,
    share,
    table_of,
)
from gambrel.report.options import Options
from gambrel.report.text import cut
from gambrel.units import format_percent, format_si

#: Causes that have figures at the top.
_SHOWN: Final = 4


def document(found: Diagnosis, _options: Options) -> Document:
    """The first cause leads; a table; the command that checks each."""
    return Document(
        title=f"{found.source}, {format_si(found.whole_s, 's')}",
        answer=_answer(found),
        sections=sections(
            section(
                table_of(
                    found.items,
                    col("cause", "cause", minimum=12),
                    col("saves at most", "saves_s", seconds),
                    col("of the whole", "saves_share", share),
                    col("evidence", "evidence", priority=1, minimum=60, shorten=cut),
                    all=True,
                )
            ),
            section(Notes(heading="What to do", items=tuple(map(_advice, found.items)))),
            section(Notes(heading="Notes", items=found.notes), folded="notes"),
        ),
        source=f"times in {found.source}",
        figures=tuple(_key_figures(found)),
    )


def _key_figures(found: Diagnosis) -> Iterator[KeyFigure]:
    yield KeyFigure(
        label="recording",
        text=format_si(found.whole_s, "s"),
        note="first op to last op",
        formula="end of the last op - start of the first one",
    )
    for item in found.items[:_SHOWN]:
        saved = "unknown" if item.saves_share is None else format_percent(item.saves_share)
        yield KeyFigure(
            label=item.cause,
            text=saved,
            note="of the time at most",
            formula="time that removing the cause can give back at most / the whole",
            source=item.evidence,
        )


def _answer(found: Diagnosis) -> tuple[str, ...]:
    if not found.items:
        return ("Nothing stands out: no known cause takes 3 % of the time.",)
    first = found.items[0]
    gain = "" if first.saves_share is None else f", up to {format_percent(first.saves_share)}"
    return (f"{first.cause.capitalize()}{gain}: {first.evidence}.", f"Next: {first.change}.")


def _advice(item: DiagnosisItem) -> str:
    check = f" Check: {item.command}" if item.command else ""
    return f"{item.cause}: {item.evidence}. Change: {item.change}.{check}"
