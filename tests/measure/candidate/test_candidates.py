"""Candidates in a process of their own: honest ones are timed, cheats and accidents are named.

Three are tried; ``--all-candidates`` tries every one (a few seconds each).
"""

from pathlib import Path

import pytest

pytest.importorskip("torch")

from gambrel.advise.judge.records import Ruling
from gambrel.analysis.question import ask
from gambrel.api import judging
from gambrel.errors import InputError

HERE = Path(__file__).parent
#: Candidate → how it is recognised; None for the honest ones.
CANDIDATES = {
    "honest": None,
    "bf16_inside": "wrong precision",
    "result_by_address": "cached results",
    "honest_in_place": None,
    "honest_blocks": None,
    "fp16_inside": "wrong precision",
    "half_output": "wrong precision",
    "half_the_rows": "skipped outputs",
    "wrong_shape": "skipped outputs",
    "zeros": "constant outputs",
    "mean_value": "constant outputs",
    "first_result": "cached results",
    "result_after_a_while": "cached results",
    "part_of_the_sum": "reduced work",
    "answers_later": "timing without synchronization",
    "lazy_tensor": "timing without synchronization",
    "slow_clock": "patched clock",
    "patched_torch": "patched torch",
    "looks_at_frames": "reads the reference's result",
    "looks_for_tensors": "reads the reference's result",
    "opens_the_files": "reads the reference's result",
    "calls_the_reference": "uses the reference",
    "changes_inputs": "changes its inputs",
    "raises": "fails",
    "segfaults": "crashes",
    "exits": "exits",
    "hangs": "hangs",
    "eats_memory": "exhausts memory",
    "prints": "prints",
    "forks": "starts a process",
    "starts_a_program": "starts a process",
    "honest_buffer": None,
    "honest_compiled": None,
    "honest_bag": None,
    "honest_triangle": None,
    "result_by_largest_value": "cached results",
    "result_by_sum_of_indices": "cached results",
    "two_of_three_stale": "cached results",
    "later_when_timed": "timing without synchronization",
    "inputs_that_stay": "patched torch",
    "inputs_that_stay_below": "changes its inputs",
    "replaced_stopwatch": "patched judge",
    "replaced_series": "patched judge",
    "opens_the_parent": "reads the reference's result",
    "signals_the_parent": "signals a process",
    "asks_the_network": "uses the network",
    "last_row_missing": "skipped outputs",
}
#: Candidates for another reference than a product.
REFERENCES = {
    "honest_bag": "indices",
    "honest_triangle": "triangles",
    "result_by_largest_value": "narrow",
    "result_by_sum_of_indices": "indices",
}
SAMPLE = 3


def judged(name):
    reference = f"{HERE / 'reference.py'}:{REFERENCES.get(name, 'build')}"
    given = {"model": reference, "hardware": "h100", "run": f"{HERE / 'candidates.py'}:{name}"}
    return judging.judge.answer(ask("judge", given))


def pytest_generate_tests(metafunc):
    if "candidate" in metafunc.fixturenames:
        every = metafunc.config.getoption("--all-candidates")
        metafunc.parametrize("candidate", list(CANDIDATES)[: None if every else SAMPLE])


def test_candidates_are_recognised(candidate):
    found = judged(candidate)
    invalid = {f.name: f.about for f in found.trial.findings if f.invalid}
    if CANDIDATES[candidate] is None:
        assert not invalid
        assert found.measured_time_s > 0
        assert found.ruling is Ruling.UNKNOWN  # a processor's time says nothing about an H100
    else:
        assert CANDIDATES[candidate] in invalid
        assert found.ruling is Ruling.INVALID
        assert found.score is None


def test_every_candidate_is_listed():
    text = (HERE / "candidates.py").read_text("utf-8")
    defined = {line[4:].partition("(")[0] for line in text.splitlines() if line.startswith("def ")}
    assert defined - {"nothing_computed"} == set(CANDIDATES)


def test_a_missing_candidate_is_refused():
    given = {"model": f"{HERE / 'reference.py'}:build", "hardware": "h100"}
    given |= {"run": "nowhere.py:build"}
    with pytest.raises(InputError, match="no such file was seen"):
        judging.judge.answer(ask("judge", given))
