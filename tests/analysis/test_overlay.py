"""Measured times beside an analysis: which op is which, and what does not fit is said."""

from __future__ import annotations

import msgspec
import pytest

import gambrel
from gambrel.analysis.overlay import Overlay, times_by_name
from gambrel.errors import FileFormatError
from gambrel.measure.profile.record import to_json
from gambrel.measure.runs.overlay import is_measured, overlaid
from gambrel.report import render
from tests.report import kinds


@pytest.fixture(scope="module")
def analysis():
    return gambrel.analyze("resnet18", "a100-sxm4-80gb")


def test_ops_are_known_by_name_and_order_and_work(analysis):
    first, second = analysis.ops[:2]
    flops = first.measures.flops
    twice = (first, first, second)
    times = times_by_name(twice, [(first.name, flops, 1.0), (first.name, flops, 2.0)])
    assert times == (1.0, 2.0, None)
    assert times_by_name([first], [(first.name, 2 * flops, 1.0)]) == (None,)
    assert times_by_name([first], [(first.name, flops + flops // 200, 3.0)]) == (3.0,)


def test_a_folded_row_takes_the_time_of_all_its_ops(analysis):
    times = [1.0] * len(analysis.ops)
    whole = Overlay(
        analysis=analysis,
        label="run",
        hardware="",
        measured_time_s=1.0,
        times_s=tuple(times),
    )
    assert {op.count: time for op, time in whole.rows()} == {1: 1.0, 2: 2.0, 4: 4.0}
    times[0] = None
    part = msgspec.structs.replace(whole, times_s=tuple(times))
    assert part.matched == len(times) - 1
    assert [time for op, time in part.rows() if op.name == analysis.ops[0].name] == [None]


@pytest.fixture
def saved(tmp_path):
    profile = kinds.profiled().profile
    path = tmp_path / "run.json"
    path.write_text(to_json(profile))
    return profile, path


def test_a_saved_profile_is_laid_over_its_model(saved):
    profile, path = saved
    assert is_measured(path)
    made = overlaid(kinds.profiled().analysis, path)
    assert made.times_s == tuple(p.time_s for p in profile.ops)
    assert made.measured_time_s == profile.totals.plain_s
    assert made.notes == ()
    assert "2 of 2 ops are in run.json" in str(render(made))


def test_another_model_is_said_to_be_one(analysis, saved):
    made = overlaid(analysis, saved[1])
    assert made.matched == 2  # its fc has the same name and the same work
    device, work = made.notes
    assert "measured on" in device
    assert work.startswith("2 of 68 ops were matched: the run has")


def test_kernels_of_a_profiler_meet_the_ops_of_their_work(analysis, tmp_path):
    path = tmp_path / "kernels.csv"
    flops = analysis.ops[0].measures.flops  # of the first convolution: 2 * 64 * 112**2 * 147
    assert flops == 236_027_904
    path.write_text(f"name,flops,dram_bytes,time\nimplicit_gemm_conv,{flops},5000000,0.0001\n")
    assert is_measured(path)
    made = overlaid(analysis, path)
    assert made.times_s[0] == pytest.approx(1e-4)
    assert made.times_s[1:] == (None,) * (len(analysis.ops) - 1)


def test_expected_times_are_no_measured_ones(analysis, tmp_path):
    path = tmp_path / "expected.json"
    analysis.save(path)
    assert not is_measured(path)
    with pytest.raises(FileFormatError, match="holds the expected times of an analysis"):
        overlaid(analysis, path)
