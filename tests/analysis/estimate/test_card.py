"""Rates of an AXERA chip on a card, to which nothing is fitted but how far the range reaches."""

import statistics

import pytest

from tests.analysis.estimate.published import answers, error, inside


@pytest.fixture(scope="module")
def rows():
    return answers("axera/card.csv")


def test_no_run_is_faster_than_the_speed_of_light(rows):
    assert all(found.sol_time_s <= measured for found, measured in rows)


def test_nearly_all_are_inside_the_range(rows):
    assert sum(inside(*row) for row in rows) >= len(rows) - 1


def test_half_of_them_are_within_a_sixth(rows):
    assert statistics.median(error(*row) for row in rows) < 1 / 6


def test_a_reader_is_told_of_the_call(rows):
    assert "a call from the host" in rows[0][0].expected_time_s.reason
