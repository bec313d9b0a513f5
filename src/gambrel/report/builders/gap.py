"""Why a time is above the speed of light, step by step."""

from __future__ import annotations

from collections.abc import Iterator

from gambrel.advise.judge.records import Gap
from gambrel.report.blocks import (
    Document,
    KeyFigure,
    col,
    seconds,
    section,
    sections,
    table_of,
)
from gambrel.report.builders.judgement import measured_figure, ruled, score_figures
from gambrel.report.options import Options
from gambrel.report.text import cut
from gambrel.units import format_si


def document(found: Gap, _options: Options) -> Document:
    """The verdict, what to do next, the steps."""
    return Document(
        title=f"{found.reference} on {found.hardware}",
        answer=(
            ruled(found),
            f"Measured: {format_si(found.measured_time_s, 's')}",
            f"Next: {found.next}",
        ),
        sections=sections(
            section(
                table_of(
                    found.steps,
                    col("with", "name"),
                    col("time", "time_s", seconds),
                    col("adds", "added_s", seconds),
                    col("because", "about", priority=1, minimum=20, shorten=cut),
                    heading="Step by step",
                    all=True,
                )
            )
        ),
        source="the measured time and the limits of the device",
        figures=tuple(_key_figures(found)),
    )


def _key_figures(found: Gap) -> Iterator[KeyFigure]:
    yield measured_figure(found)
    if not found.steps:
        return
    light, most = found.steps[0], max(found.steps[1:], key=lambda s: s.added_s, default=None)
    yield KeyFigure(
        label="speed of light",
        text=format_si(light.time_s, "s"),
        note="no run is faster",
        key="sol_time_s",
        source=light.about,
    )
    yield from score_figures(found)
    if most is not None:
        yield KeyFigure(
            label="largest step",
            text=format_si(most.added_s, "s", 3),
            note=most.name,
            formula="time with this step - time with those before it",
            source=most.about,
        )
