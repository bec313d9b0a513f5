"""A gate fails where a figure got worse beyond tolerance and chance, and says what it could see."""

import json
import math
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from gambrel.advise.gate.compare import compare_to
from gambrel.advise.gate.records import GateBaseline, GateMetric, GateReport, GateState
from gambrel.api import gate
from gambrel.api.gate_config import GateConfig, read_config
from gambrel.api.gate_history import append, read
from gambrel.cli import run
from gambrel.errors import FileFormatError, InputError
from gambrel.report.gate_files import junit, sarif

RNG = np.random.default_rng(7)


def metric(name, value, *, spread=0.01, runs=20, measured=True, unit="s"):
    samples = value * (1 + spread * RNG.standard_normal(runs))
    return GateMetric(name=name, samples=tuple(samples), unit=unit, measured=measured)


def state_of(old, new, tolerances=None, **more):
    (row,) = compare_to(GateBaseline(metrics=(old,)), [new], tolerances or {}, **more)
    return row.state


@pytest.mark.parametrize(
    ("factor", "state"),
    [(1.0, "unchanged"), (1.03, "unchanged"), (1.2, "regression"), (0.8, "improved")],
)
def test_a_time_that_grows_is_a_regression(factor, state):
    old, new = metric("step time_s", 1e-3), metric("step time_s", 1e-3 * factor)
    assert state_of(old, new).value == state


@pytest.mark.parametrize("name", ["step score", "tokens_per_s", "mfu"])
def test_of_rates_and_scores_more_is_better(name):
    old = metric(name, 100.0, unit="1")
    assert state_of(old, metric(name, 80.0, unit="1")) is GateState.REGRESSION
    assert state_of(old, metric(name, 120.0, unit="1")) is GateState.IMPROVED


def test_chance_is_no_regression_and_the_report_says_what_could_be_seen():
    old = metric("step time_s", 1e-3, spread=0.5, runs=6)
    new = GateMetric(name=old.name, samples=tuple(1.1 * s for s in old.samples), measured=True)
    (row,) = compare_to(GateBaseline(metrics=(old,)), [new], {})
    assert row.state is GateState.UNCHANGED
    assert row.detectable_share > 0.1
    assert "show only changes above" in row.about


def test_the_detectable_change_is_that_of_two_medians():
    """Normal samples: a median's standard error is 1.2533 spread / sqrt(n); of a difference, x √2.

    With 2.8 standard errors, 200 runs and a spread of 2 %: 2.8 x 0.02 x 1.2533 x 1.414 / 14.14.
    """
    old, new = (metric("a time_s", 1.0, spread=0.02, runs=200) for _ in range(2))
    (row,) = compare_to(GateBaseline(metrics=(old,)), [new], {})
    assert row.detectable_share == pytest.approx(2.8 * 0.02 * 1.2533 * math.sqrt(2 / 200), rel=0.4)


def test_equal_runs_rarely_fail():
    """No false alarm in 200 pairs of runs without a change, at a tolerance below the spread."""
    old = tuple(metric(f"k{i} time_s", 1.0, spread=0.05) for i in range(200))
    new = [metric(f"k{i} time_s", 1.0, spread=0.05) for i in range(200)]
    rows = compare_to(GateBaseline(metrics=old), new, {"default": 0.05})
    assert sum(row.state is GateState.REGRESSION for row in rows) <= 4


def test_what_vanished_or_is_no_number_fails():
    old = (metric("a time_s", 1.0), metric("b time_s", 1.0))
    new = [GateMetric(name="b time_s", samples=(math.nan,)), metric("c time_s", 1.0)]
    states = {row.metric: row.state.value for row in compare_to(GateBaseline(metrics=old), new, {})}
    assert states == {"a time_s": "vanished", "b time_s": "invalid", "c time_s": "new"}


def test_the_longest_pattern_gives_the_tolerance():
    old, new = metric("a time_s", 1.0, spread=0, runs=1), metric("a time_s", 1.2, spread=0, runs=1)
    assert state_of(old, new, {"*": 0.01, "a*": 0.5}) is GateState.UNCHANGED
    assert state_of(old, new, {"default": 0.5, "a*": 0.01}) is GateState.REGRESSION


def test_a_busy_machine_widens_measured_figures_only():
    for measured, state in ((True, "unchanged"), (False, "regression")):
        old = metric("a time_s", 1.0, spread=0, runs=1, measured=measured)
        new = metric("a time_s", 1.08, spread=0, runs=1, measured=measured)
        assert state_of(old, new, {"default": 0.05}, busy=True).value == state


@pytest.fixture
def results(tmp_path):
    def write(name, **values):
        rows = [{"name": k, "samples": v, "unit": "s"} for k, v in values.items()]
        path = tmp_path / name
        path.write_text("\n".join(map(json.dumps, rows)))
        return path

    return write


def test_record_and_check_on_the_command_line(tmp_path, results, capsys):
    first = results("a.jsonl", step=[1.0, 1.01, 0.99, 1.0, 1.0])
    slow = results("b.jsonl", step=[1.5, 1.51, 1.49, 1.5, 1.5])
    base, xml, log = (str(tmp_path / n) for n in ("base.json", "g.xml", "g.sarif"))
    assert run(["gate", "record", base, str(first)]) == 0
    assert run(["gate", "check", base, str(first), "--json"]) == 0
    assert run(["gate", "check", base, str(slow), "--junit", xml, "--sarif", log]) == 1
    assert "FAIL" in capsys.readouterr().out
    failures = list(ET.parse(xml).getroot().iter("failure"))
    assert [f.get("type") for f in failures] == ["regression"]
    (result,) = json.loads((tmp_path / "g.sarif").read_text())["runs"][0]["results"]
    assert result["ruleId"] == "regression"


def test_computed_figures_come_from_questions(tmp_path):
    path = tmp_path / "gate.toml"
    path.write_text(
        '[[expected]]\nmodel = "resnet18"\nhardware = ["a100"]\nbatch = [1, 8]\n'
        'metrics = ["flops"]\n[tolerance]\ndefault = 0.1\n'
    )
    one, eight = gate.metrics_of(read_config(path), [])
    assert eight.samples[0] == 8 * one.samples[0]
    assert one.name == "resnet18 a100 b1 flops"


def test_results_of_gambrel_are_read(tmp_path, capsys):
    path = tmp_path / "a.json"
    assert run(["analyze", "resnet18", "-d", "a100", "-o", str(path)]) == 0
    names = {m.name.rpartition(" ")[2] for m in gate.metrics_of_file(path)}
    assert {"sol_time_s", "flops", "traffic_bytes"} <= names
    capsys.readouterr()
    op = "matmul:m=64,n=64,k=64,bf16"
    assert run(["judge", op, "-d", "h100", "--time", "1ms", "--json"]) == 0
    path.write_text(capsys.readouterr().out)
    assert {m.name.rpartition(" ")[2] for m in gate.metrics_of_file(path)} == {
        "measured_time_s",
        "score",
    }


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"type": "gambrel/baseline"}', "x"])
def test_what_is_no_baseline_is_refused(tmp_path, content):
    path = tmp_path / "base.json"
    path.write_text(content)
    with pytest.raises(FileFormatError, match="gate record"):
        gate.load(path)


def test_another_machine_is_refused(tmp_path, results, monkeypatch):
    first, base = results("a.jsonl", step=[1.0]), tmp_path / "base.json"
    monkeypatch.setattr(gate, "_machine", lambda: "this-other")
    gate.record(base, GateConfig(), [first])
    monkeypatch.undo()
    with pytest.raises(InputError, match="--any-machine"):
        gate.check(base, GateConfig(), [first])
    assert gate.check(base, GateConfig(), [first], any_machine=True).passed


def test_a_metric_that_is_no_number_is_no_baseline(tmp_path, results):
    with pytest.raises(InputError, match="cannot be a baseline"):
        gate.record(tmp_path / "b.json", GateConfig(), [results("a.jsonl", step=[None])])


@pytest.mark.parametrize("name", ["h.jsonl", "h.parquet"])
def test_a_history_keeps_every_time(tmp_path, name):
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    path = tmp_path / name
    for day, value in (("2026-01-01", 1.0), ("2026-01-02", 2.0)):
        append(path, [metric("a time_s", value, spread=0)], day, "note")
    assert [p.sample for p in read(path).points] == [1.0, 2.0]


def test_files_for_ci_hold_no_control_characters():
    rows = compare_to(GateBaseline(metrics=(metric("a\x1b[31m", 1.0),)), [], {})
    report = GateReport(baseline_file="b.json", rows=rows)
    for content in (junit(report), sarif(report)):
        assert b"\x1b" not in content
        assert b"\\u001b" not in content


GOOD = '{"type": "gambrel/baseline", "metrics": [{"name": "a", "samples": [1]}%s}'


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (GOOD % ', {"name": "a", "samples": [2]}]', "there twice"),
        (GOOD % ', {"name": "b", "samples": []}]', "not numbers"),
        (GOOD % '], "schema_version": 99', "newer than this one"),
    ],
)
def test_a_baseline_that_cannot_be_compared_is_refused(tmp_path, content, says):
    path = tmp_path / "base.json"
    path.write_text(content)
    with pytest.raises(FileFormatError, match=says):
        gate.load(path)


@pytest.mark.parametrize("value", ["NaN", "Infinity", "null", "1e999"])
def test_what_other_programs_write_for_no_number_fails_the_gate(tmp_path, results, value):
    base, now = tmp_path / "base.json", tmp_path / "now.json"
    gate.record(base, GateConfig(), [results("a.jsonl", step=[1.0])])
    now.write_text(f'{{"name": "step", "value": {value}, "unit": "s"}}')
    (row,) = gate.check(base, GateConfig(), [now]).rows
    assert row.state is GateState.INVALID
    with pytest.raises(InputError, match="cannot be a baseline"):
        gate.record(base, GateConfig(), [now])


@pytest.mark.parametrize("value", ['"fast"', "true", "[]", "{}"])
def test_a_value_of_another_kind_is_refused(tmp_path, value):
    path = tmp_path / "now.json"
    path.write_text(f'{{"name": "step", "value": {value}}}')
    with pytest.raises(FileFormatError, match="not numbers"):
        gate.metrics_of_file(path)


EXPECTED = '[[expected]]\nmodel = "resnet18"\nhardware = "a100"\n'


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("expected = 3", "Expected `array`"),
        ('[expected]\nmodel = "resnet18"', "Expected `array`"),
        ("tolerance = 5", "Expected `object`"),
        ('tolerance = {a = "x"}', "Expected `float`"),
        ("tolerance = {a = -1}", "is no share"),
        ('files = "a.json"', "Expected `array`"),
        ("colour = 1", "unknown field 'colour'"),
        ("expected = [", "a gate has"),
        ('[[expected]]\nmodel = "resnet18"', "needs a model and hardware"),
        (EXPECTED + 'metrics = ["speed"]', "is no figure of an analysis"),
        (EXPECTED + 'metrics = "workload"', "is no number"),
    ],
)
def test_a_configuration_that_says_nothing_is_refused_in_a_sentence(tmp_path, text, says, capsys):
    path = tmp_path / "gate.toml"
    path.write_text(text)
    assert run(["gate", "record", str(tmp_path / "base.json"), "-c", str(path)]) == 2
    said = capsys.readouterr().err
    assert says in said
    assert len(said.splitlines()) == 1


def test_a_baseline_that_cannot_be_written_is_refused_before_any_work(tmp_path, results, capsys):
    first = results("a.jsonl", step=[1.0])
    assert run(["gate", "record", str(tmp_path / "no" / "base.json"), str(first)]) == 2
    assert "no" in capsys.readouterr().err


def test_a_few_runs_are_said_to_tell_nothing(tmp_path, results):
    base = tmp_path / "base.json"
    gate.record(base, GateConfig(), [results("a.jsonl", step=[1.0])])
    report = gate.check(base, GateConfig(), [results("b.jsonl", step=[1.01])])
    assert report.rows[0].detectable_share is None
    assert any("fewer than 5 runs" in note for note in report.notes)
