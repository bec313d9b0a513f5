"""Published runs of benchmarks/data beside the answers to their questions."""

import csv
from pathlib import Path

import gambrel

DATA = Path(__file__).parents[3] / "benchmarks/data"
SIZES = ("batch", "seq", "image")


def answers(name):
    """The analysis and the measured seconds of each row of a table of device, model, format, ms."""
    with (DATA / name).open(newline="", encoding="utf-8") as file:
        return [_asked(row) for row in csv.DictReader(file)]


def _asked(row):
    sizes = {k: int(row[k]) for k in SIZES if row.get(k)}
    found = gambrel.analyze(
        row["model"], hardware=row["device"], precision=row["format"], sizes=sizes
    )
    return found, float(row["ms"]) / 1e3


def inside(found, measured):
    return found.expected_time_s.low <= measured <= found.expected_time_s.high


def error(found, measured):
    return abs(found.expected_time_s.value / measured - 1)
