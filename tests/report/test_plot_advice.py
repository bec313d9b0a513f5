"""Charts of comparisons and what-ifs: their data, not their looks."""

import math

import pytest

import gambrel
from gambrel.advise.whatif import what_if
from gambrel.cli import run
from gambrel.errors import InputError
from gambrel.report import plot_advice, plot_compare, plot_whatif, render


def what_if_sides(model, device, changes):
    before = gambrel.analyze(model, device)
    changes = [changes] if isinstance(changes, str) else changes
    after = before.with_change(*changes)
    return before, after, what_if(before, after, changes)


def test_an_arrow_an_op_and_one_for_the_whole():
    before, after, found = what_if_sides("resnet18", "a100", ["precision=int8"])
    figure = plot_whatif.plot(before, after, found)
    traces = {t.name: t for t in figure.data if t.mode == "markers"}
    assert traces["whole model before"].x[0] == pytest.approx(before.arithmetic_intensity)
    assert traces["whole model after"].x[0] == pytest.approx(after.arithmetic_intensity)
    assert len(traces["ops before"].x) == len(traces["ops after"].x) > 10
    arrows = [a for a in figure.layout.annotations if a.showarrow]
    whole = arrows[-1]
    assert 10**whole.ax == pytest.approx(before.arithmetic_intensity)
    assert 10**whole.y == pytest.approx(after.flops / after.roofline_time_s)
    assert all(math.isfinite(v) for a in arrows for v in (a.ax, a.ay, a.x, a.y))


def test_roofs_of_both_devices():
    same = plot_whatif.plot(*what_if_sides("resnet18", "a100", "batch=8"))
    other = plot_whatif.plot(*what_if_sides("resnet18", "a100", "hardware=h100"))
    lines = [sum(t.mode == "lines" for t in figure.data) for figure in (same, other)]
    assert lines[1] > lines[0]


def test_the_front_of_a_comparison():
    found = gambrel.compare("yolov8n", ["l4", "t4", "h100", "hailo-8"], metric=["latency", "power"])
    figure = plot_compare.plot(found)
    others, front = figure.data
    # hailo-8 has no known latency and is left out
    assert {*others.text, *front.text} == {"l4", "t4", "h100-sxm5-80gb"}
    assert list(front.x) == sorted(front.x)
    assert list(front.y) == sorted(front.y, reverse=True)
    # power is known only as a limit: hollow
    assert set(front.marker.symbol) == {"circle-open"}
    assert figure.layout.yaxis.title.text == "latency, s (less is better)"


def test_nothing_to_draw():
    one = gambrel.compare("yolov8n", ["l4"], metric="latency")
    with pytest.raises(InputError, match="a chart needs two metrics"):
        plot_compare.plot(one)
    unknown = gambrel.compare("yolov8n", ["hailo-8"], metric=["latency", "power"])
    with pytest.raises(InputError, match="no row has both power and latency"):
        plot_compare.plot(unknown)


def test_pages_are_written_whole_or_not_at_all(tmp_path, capsys):
    page = tmp_path / "chart.html"
    command = ["compare", "yolov8n", "--hardware", "l4,t4", "--html", str(page)]
    assert run([*command, "--metric", "latency"]) == 2
    out, err = capsys.readouterr()
    assert (out, page.exists()) == ("", False)
    assert "two metrics" in err
    assert run([*command, "--metric", "latency,power", "--json"]) == 0
    assert "Pareto front" in page.read_text()
    moved = tmp_path / "moved.html"
    what_if = ["what-if", "resnet18", "--hardware", "a100", "--change", "fuse"]
    assert run([*what_if, "--html", str(moved)]) == 0
    assert "whole model after" in moved.read_text()
    assert run([*what_if, "--html", str(tmp_path / "none" / "x.html")]) == 2


@pytest.mark.parametrize(
    ("suffix", "start"),
    [("svg", b"<?xml"), ("png", b"\x89PNG"), ("pdf", b"%PDF"), ("html", b"<html")],
)
@pytest.mark.parametrize(
    "command",
    [
        "compare yolov8n --hardware l4,t4,h100 --metric latency,power",
        "select yolov8n --hardware l4,t4,h100,hailo-8 --latency 33ms --power 100W",
        "what-if resnet18 --hardware a100 --change precision=int8",
    ],
)
def test_every_format_of_every_chart(command, suffix, start, tmp_path, capsys):
    path = tmp_path / f"chart.{suffix}"
    assert run([*command.split(), "--output", str(path), "--json"]) == 0
    assert start in path.read_bytes()[:100]
    assert capsys.readouterr().err == f"wrote {path}\n"


def test_the_static_front_names_what_no_other_beats(tmp_path):
    path = tmp_path / "front.svg"
    command = "compare yolov8n --hardware l4,t4,h100,hailo-8 --metric throughput,price"
    prices = "--price l4=2500 --price t4=900 --price h100=25000 --price hailo-8=70"
    assert run([*command.split(), *prices.split(), "-o", str(path)]) == 0
    text = path.read_text()
    assert "throughput against price" in text
    assert ">t4<" in text
    assert ">l4<" in text
    assert "hailo-8" not in text  # nothing is known of its throughput


def test_static_arrows_start_where_ops_were():
    sides = what_if_sides("resnet18", "a100", ["precision=int8", "hardware=h200"])
    chart = plot_advice._moved(*sides)
    before, after, _ = sides
    whole = chart.moves[0]
    assert whole.start[0] == pytest.approx(before.arithmetic_intensity)
    assert whole.end[1] == pytest.approx(after.flops / after.roofline_time_s)
    used = {roof.peak_flop_per_s for roof in chart.roofs if roof.used}
    assert {312e12, 1979e12} <= {round(v, -12) for v in used}
    assert chart.y_range[0] <= min(m.start[1] for m in chart.moves)


def test_static_charts_are_the_same_bytes_each_time():
    found = gambrel.compare("yolov8n", ["l4", "t4"], metric=["latency", "power"])
    assert render(found, "svg") == render(found, "svg")


@pytest.mark.parametrize(
    ("name", "message"), [("chart.gif", "unknown file suffix"), ("none/chart.svg", "no folder")]
)
def test_what_cannot_be_written_is_said_first(name, message, tmp_path, capsys):
    command = "compare yolov8n --hardware l4,t4 --metric latency,power"
    assert run([*command.split(), "-o", str(tmp_path / name)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
