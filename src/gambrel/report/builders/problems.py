"""The limits of every problem of a folder."""

from __future__ import annotations

from gambrel.advise.judge.records import Problems
from gambrel.report.blocks import (
    Document,
    KeyFigure,
    amount,
    capacity,
    col,
    seconds,
    section,
    sections,
    table_of,
)
from gambrel.report.options import Options
from gambrel.units import format_count


def document(found: Problems, _options: Options) -> Document:
    """How many have a limit, and the table."""
    known = [row for row in found.rows if row.sol_time_s is not None]
    return Document(
        title=found.folder,
        answer=(
            f"{len(known):,} of {format_count(len(found.rows), 'problem')} with a speed of light",
        ),
        sections=sections(
            section(
                table_of(
                    found.rows,
                    col("problem", "problem", minimum=20),
                    col("device", "hardware"),
                    col("limit", "sol_time_s", seconds),
                    col("cold", "cold_time_s", seconds),
                    col("bound", lambda r: r.bound.value if r.bound else r.error, key="bound"),
                    col("matrix work", "matrix_flops", amount, 2),
                    col("traffic", "traffic_bytes", capacity, 1),
                )
            )
        ),
        source=f"the problems of {found.folder} and the ceilings of the devices",
        figures=(
            KeyFigure(
                label="problems",
                text=f"{len(found.rows):,}",
                formula="files of the folder, once per device",
            ),
            KeyFigure(
                label="with a limit",
                text=f"{len(known):,}",
                formula="problems whose work and traffic could be counted",
            ),
            KeyFigure(
                label="all limits",
                text=seconds(sum(row.sol_time_s or 0.0 for row in known)),
                note="speed of light of one run each",
                formula="sum of the speeds of light",
            ),
        ),
    )
