"""The published figures: one form for all sources, see scripts/published.py."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "data/published"
#: Not measurements.
OTHER = {"exceptions"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One published figure; ``sizes`` are NAME=NUMBER, separated by blanks."""

    file: str
    source: str
    model: str
    device: str
    precision: str
    quantity: str
    value: float
    batch: int | None
    sizes: str
    devices: int
    note: str

    @property
    def key(self) -> str:
        """Names the row in the list of exceptions."""
        parts = (self.source, self.model, self.device, self.precision, self.batch, self.sizes)
        return " | ".join(str(part) for part in (*parts, f"{self.value:.5g}") if part)

    @property
    def numbers(self) -> dict[str, int]:
        """The sizes as numbers."""
        return {k: int(v) for k, _, v in (pair.partition("=") for pair in self.sizes.split())}

    @property
    def seconds(self) -> float:
        """Seconds of a run, or of an item where a rate was published."""
        return self.value if self.quantity == "latency_s" else 1 / self.value


@cache
def rows(file: str) -> tuple[Row, ...]:
    """All rows of a file."""
    with (FOLDER / f"{file}.csv").open(encoding="utf-8") as stream:
        licence = stream.readline()
        assert licence.startswith("# Facts from "), file
        return tuple(_row(file, record) for record in csv.DictReader(stream))


def files() -> list[str]:
    """Names of all files of measurements."""
    return sorted(p.stem for p in FOLDER.glob("*.csv") if p.stem not in OTHER)


def group(row: Row) -> tuple[object, ...]:
    """Rows of a group have one speed of light."""
    return (row.model, row.device, row.precision, row.batch, row.sizes, row.quantity)


def sample(file: str, stride: int) -> list[Row]:
    """The rows of every ``stride``-th group."""
    groups = sorted({group(row) for row in rows(file)}, key=str)
    chosen = set(groups[::stride])
    return [row for row in rows(file) if group(row) in chosen]


@cache
def exceptions() -> dict[tuple[str, str], str]:
    """(File, row) → why a run is faster than the limit."""
    with (FOLDER / "exceptions.csv").open(encoding="utf-8") as stream:
        return {(r["file"], r["row"]): r["cause"] for r in csv.DictReader(stream)}


def _row(file: str, record: dict[str, str]) -> Row:
    numbers = {
        "value": float(record["value"]),
        "batch": int(record["batch"]) if record["batch"] else None,
        "devices": int(record["devices"] or 1),
    }
    return Row(file=file, **{**record, **numbers})
