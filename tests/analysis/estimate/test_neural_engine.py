"""Times on iPhones that authors of networks publish, and on Macs."""

import csv
import statistics
from pathlib import Path

import pytest

import gambrel
from gambrel.errors import InputError

ROWS = Path(__file__).parents[3] / "benchmarks/data/coreml/neural_engine.csv"


def asked(row):
    size = {"image": int(row["image"])} if row["image"] else {}
    return gambrel.analyze(
        row["model"], hardware=row["device"], precision=row["format"], **size
    ), float(row["ms"]) / 1e3


@pytest.fixture(scope="module")
def macs():
    with ROWS.with_name("macs.csv").open(newline="", encoding="utf-8") as file:
        return [asked(row) for row in csv.DictReader(file)]


@pytest.fixture(scope="module")
def rows():
    with ROWS.open(newline="", encoding="utf-8") as file:
        return [asked(row) for row in csv.DictReader(file)]


def test_no_run_is_faster_than_the_speed_of_light(rows, macs):
    assert all(found.sol_time_s <= measured for found, measured in (*rows, *macs))


def test_most_runs_are_inside_the_range(rows):
    inside = [
        found.expected_time_s.low <= measured <= found.expected_time_s.high
        for found, measured in rows
    ]
    assert len(rows) == 97
    assert statistics.fmean(inside) >= 0.85


def test_half_of_the_runs_are_within_an_eighth(rows):
    errors = [abs(found.expected_time_s.value / measured - 1) for found, measured in rows]
    assert statistics.median(errors) < 0.125


def test_times_of_macs_are_inside_ranges_by_phones_with_their_cores(macs):
    inside = [
        found.expected_time_s.low <= measured <= found.expected_time_s.high
        for found, measured in macs
    ]
    assert len(macs) == 22
    assert all(inside)
    assert {found.expected_time_s.confidence for found, _ in macs} == {"low"}


def test_core_ml_on_a_phone_is_its_neural_engine():
    found = gambrel.analyze("fastvit-t8", hardware="iphone-12", runtime="coreml")
    assert found.runtime == "coreml-ane"


def test_core_ml_on_a_mac_stays_on_its_gpu():
    assert gambrel.analyze("resnet50", hardware="m1", runtime="coreml").runtime == "coreml"


def test_engines_for_apples_gpus_do_not_run_on_the_neural_engine():
    with pytest.raises(InputError, match="does not run on apple-a15"):
        gambrel.analyze("llama-3-8b", hardware="iphone-14", phase="decode", runtime="mlx")
