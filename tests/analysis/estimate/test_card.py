"""Rates of an AXERA chip on a card, to which nothing is fitted but how far the range reaches."""

import csv
import statistics
from pathlib import Path

import pytest

import gambrel

ROWS = Path(__file__).parents[3] / "benchmarks/data/axera/card.csv"


def asked(row):
    found = gambrel.analyze(
        row["model"],
        hardware=row["device"],
        precision=row["format"],
        batch_size=int(row["batch"]),
    )
    return found, float(row["ms"]) / 1e3


@pytest.fixture(scope="module")
def rows():
    with ROWS.open(newline="", encoding="utf-8") as file:
        return [asked(row) for row in csv.DictReader(file)]


def test_no_run_is_faster_than_the_speed_of_light(rows):
    assert all(found.sol_time_s <= measured for found, measured in rows)


def test_nearly_all_are_inside_the_range(rows):
    times = [(found.expected_time_s, measured) for found, measured in rows]
    assert sum(e.low <= measured <= e.high for e, measured in times) >= len(rows) - 1


def test_half_of_them_are_within_a_sixth(rows):
    errors = [abs(found.expected_time_s.value / measured - 1) for found, measured in rows]
    assert statistics.median(errors) < 1 / 6


def test_a_reader_is_told_of_the_call(rows):
    assert "a call from the host" in rows[0][0].expected_time_s.reason
