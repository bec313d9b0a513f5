"""Two runs side by side: pairing, figures, charts, files."""

import json
import re
import xml.etree.ElementTree as ET

import pytest

import gambrel
from gambrel.analysis.result import ModelInfo
from gambrel.cli import run as gambrel_run
from gambrel.device.lookup import from_peaks
from gambrel.errors import FileFormatError
from gambrel.measure.runs import Run, RunPoint, load_run, pair
from gambrel.report import runs_chart

DEVICE = from_peaks(1e12, 1e11, name="box")


def point(name, time_s, flops=100, traffic=50, bound="memory"):
    return RunPoint(
        name=name, kind="matmul", flops=flops, traffic_bytes=traffic, time_s=time_s, bound=bound
    )


def made(label, *points, times="measured", device=DEVICE, total=None):
    info = ModelInfo(
        name="net", origin="", precision="fp32", precision_reason="", symbols={}, parameters=1
    )
    return Run(label=label, times=times, model=info, hardware=device, total_s=total, points=points)


def test_ops_are_paired_by_name_and_by_order_among_equal_names():
    first = made("a", point("x", 1.0), point("x", 2.0), point("gone", 3.0), total=6.0)
    second = made("b", point("x", 4.0), point("new", 0.5), point("x", 2.0), total=9.0)
    found = pair(first, second)
    assert [(p.name, p.change_s) for p in found.pairs] == [
        ("x", 3.0),
        ("new", 0.5),
        ("x", 0.0),
        ("gone", -3.0),
    ]
    assert [p.ratio for p in found.pairs] == [4.0, None, 1.0, None]
    assert found.ratio == 1.5
    assert [p.name for p in found.ranked()][:2] == ["x", "gone"]


def test_what_is_hard_to_compare_is_said():
    other = from_peaks(2e12, 1e11, name="other")
    found = pair(
        made("a", point("x", 1.0)), made("b", point("y", 1.0), times="roofline", device=other)
    )
    said = " ".join(found.warnings)
    assert "the times of a are measured and those of b roofline" in said
    assert "a is on box and b on other" in said
    assert "only 0 of 2 ops have the same name" in said
    assert pair(made("a", point("x", 1.0)), made("b", point("x", 1.0))).warnings == ()


def test_the_chart_has_a_move_for_every_dot_in_both():
    # 100 FLOP and 50 bytes in 1 s, then in 0.5 s: from (2, 100) to (2, 200).
    first = made("a", point("x", 1.0), point("still", None), total=1.0)
    second = made("b", point("x", 0.5), point("still", 1.0), total=0.5)
    chart = runs_chart.describe(pair(first, second))
    assert (chart.moves[0].start, chart.moves[0].end) == ((2.0, 100.0), (2.0, 200.0))
    assert len(chart.moves) == 2  # x, and the whole
    assert len(chart.points) == 2
    low, high = chart.y_range
    assert all(low <= rate <= high for m in chart.moves for _, rate in (m.start, m.end))


def test_the_dots_without_a_place_are_left_out_of_the_chart():
    first = made("a", point("x", 1.0, flops=0), point("y", 1.0, traffic=0))
    chart = runs_chart.describe(pair(first, first))
    assert (chart.points, chart.moves) == ((), ())


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for batch in (1, 8):
        analysis = gambrel.analyze("resnet18", "a100", batch_size=batch)
        analysis.save(folder / f"b{batch}.json")
    return folder


def test_analyses_of_two_batch_sizes(files, capsys):
    pages = [str(files / f"out.{suffix}") for suffix in ("html", "svg", "json")]
    options = [word for page in pages for word in ("-o", page)]
    assert (
        gambrel_run(
            ["compare-runs", str(files / "b1.json"), str(files / "b8.json"), "--chart", *options]
        )
        == 0
    )
    out = capsys.readouterr().out
    assert "resnet18" in out
    assert "○ first run" in out
    ET.parse(files / "out.svg")
    page = (files / "out.html").read_text()
    assert page.count("<script>") == page.count("script-src 'sha256-") == 1
    data = json.loads(re.search(r'id="gambrel-data">(.*?)</script>', page, re.S)[1])
    assert len({text for text in data["strings"] if "layer" in text}) > 20
    record = json.loads((files / "out.json").read_text())
    assert record["type"] == "gambrel/runs"
    # Eight times the images, eight times the work; folding the norms is done once.
    assert record["second"]["flops"] == pytest.approx(8 * record["first"]["flops"], rel=1e-4)
    assert all(p["first"] and p["second"] for p in record["pairs"])


def test_json_alone_is_json_and_nothing_else(files, capsys):
    names = [str(files / "b1.json"), str(files / "b8.json")]
    assert gambrel_run(["compare-runs", *names, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["schema_version"] == 2


def test_a_profile_beside_an_analysis(files, tmp_path):
    torch = pytest.importorskip("torch")
    ra = gambrel.RooflineAnalyzer(
        torch.nn.ReLU(), torch.randn(64), from_peaks(1e18, 1e18, name="f")
    )
    ra.profile("cpu", warmup=0, steps=1)
    ra.save(tmp_path / "p.json")
    run = load_run(tmp_path / "p.json")
    assert (run.label, run.times) == ("p", "measured")
    assert run.total_s == ra.totals.plain_s
    assert [p.time_s for p in run.points] == [p.time_s for p in ra.results]
    found = pair(load_run(files / "b1.json"), run)
    assert any("times" in w for w in found.warnings)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "no valid JSON"),
        ("{", "no valid JSON"),
        ("[]", "no analysis|not an analysis|analys"),
        ('{"type": "gambrel/profile", "schema_version": 9}', "is a profile of version 9"),
        ('{"type": "gambrel/profile", "schema_version": 2}', "is a damaged profile"),
        ('{"type": "gambrel/profile", "schema_version": 2, "ops": 3}', "is a damaged profile"),
        ("[" * 100_000, "no valid JSON"),
    ],
)
def test_broken_files_are_refused(tmp_path, text, sentence):
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(FileFormatError, match=sentence):
        load_run(path)


def test_errors_are_one_line(files, capsys):
    for arguments, sentence in (
        (["nowhere.json", str(files / "b1.json")], "cannot read nowhere.json"),
        ([str(files / "b1.json"), str(files / "b8.json"), "-o", "x.pptx"], ".pptx"),
    ):
        assert gambrel_run(["compare-runs", *arguments]) == 2
        said = capsys.readouterr()
        assert sentence in said.err
        assert said.err.count("\n") == 1
