"""Why a time is above the speed of light, step by step."""

from __future__ import annotations

from gambrel.advise.judge.records import Gap
from gambrel.report.blocks import Document, col, seconds, section, sections, table_of
from gambrel.report.options import Options
from gambrel.units import format_si


def document(found: Gap, _options: Options) -> Document:
    """The verdict, what to do next, the steps."""
    return Document(
        title=f"{found.reference} on {found.hardware}",
        answer=(
            f"{found.ruling.value.upper()}: {found.reason}",
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
                    col("because", "about", priority=1, minimum=20),
                    heading="From the speed of light to the measured time",
                    all=True,
                )
            )
        ),
    )
