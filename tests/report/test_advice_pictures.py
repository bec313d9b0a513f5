"""Charts of comparisons and what-ifs: their data, not their looks."""

import math

import pytest

import gambrel
from gambrel.advise.whatif import what_if
from gambrel.cli import run
from gambrel.errors import InputError
from gambrel.report import Options, advice_pictures, plot_interactive, render
from gambrel.report.answers import Changed


def what_if_sides(model, device, changes):
    before = gambrel.analyze(model, device)
    changes = [changes] if isinstance(changes, str) else changes
    after = before.with_change(*changes)
    return before, after, what_if(before, after, changes)


def front(found):
    (chart,) = advice_pictures.comparison(found, Options())
    return chart


def test_an_arrow_an_op_and_one_for_the_whole():
    before, after, found = what_if_sides("resnet18", "a100", ["precision=int8"])
    (chart,) = advice_pictures.whatif(Changed(before=before, after=after, found=found), Options())
    whole = chart.arrows[0]
    assert whole.start[0] == pytest.approx(before.arithmetic_intensity)
    assert whole.end[1] == pytest.approx(after.flops / after.expected_time_s.value)
    assert len(chart.arrows) > 10
    places = {d.at for d in chart.dots}
    assert all(arrow.end in places for arrow in chart.arrows[:1])
    figure = plot_interactive.figure(chart)
    arrows = [a for a in figure.layout.annotations if a.showarrow]
    assert 10 ** arrows[0].ax == pytest.approx(before.arithmetic_intensity)
    assert all(math.isfinite(v) for a in arrows for v in (a.ax, a.ay, a.x, a.y))


def test_roofs_of_both_devices():
    same = advice_pictures.moved(*what_if_sides("resnet18", "a100", "batch=8"))
    other = advice_pictures.moved(*what_if_sides("resnet18", "a100", "hardware=h100"))
    for chart, slopes in ((same, {2.039e12}), (other, {2.039e12, 3.35e12})):
        assert {m.byte_per_s for m in chart.memory_roofs if m.used} == slopes


def test_the_front_of_a_comparison():
    found = gambrel.compare(
        "yolov8n", ["l4", "t4", "h100", "coral-edge-tpu"], metric=["latency", "power"]
    )
    chart = front(found)
    # coral-edge-tpu has no known latency and is left out
    assert {note.text for note in chart.notes} == {"l4", "t4", "h100-sxm5-80gb"}
    xs, ys = zip(*chart.curves[0].points, strict=True)
    assert list(xs) == sorted(xs)
    assert list(ys) == sorted(ys, reverse=True)
    assert not any(dot.hollow for dot in chart.dots)  # power is fitted to measured runs
    assert chart.title == "latency against power (unknown: coral-edge-tpu)"
    assert chart.y.title == "latency (less is better)"


def test_what_is_known_only_as_a_limit_is_hollow():
    found = gambrel.compare("yolov8n", ["l4", "orin-nano-8gb"], metric=["latency", "power"])
    hollow = {dot.about[0].split()[-1]: dot.hollow for dot in front(found).dots}
    assert hollow == {"l4": False, "jetson-orin-nano-8gb": True}


def test_a_what_if_says_how_many_ops_have_an_arrow():
    before, after, found = what_if_sides("resnet18", "a100", ["precision=int8"])
    title = advice_pictures.moved(before, after, found).title
    assert title.endswith(f"(the 40 of {len(found.ops)} ops that change most)")


def test_nothing_to_draw():
    one = gambrel.compare("yolov8n", ["l4"], metric="latency")
    with pytest.raises(InputError, match="a chart needs two metrics"):
        front(one)
    unknown = gambrel.compare("yolov8n", ["coral-edge-tpu"], metric=["latency", "power"])
    with pytest.raises(InputError, match="no row has both power and latency"):
        front(unknown)


def test_pages_are_written_whole_or_not_at_all(tmp_path):
    page = tmp_path / "chart.html"
    command = ["compare", "yolov8n", "--hardware", "l4,t4", "--html", str(page)]
    assert run([*command, "--metric", "latency"]) == 0
    assert "Pareto front" not in page.read_text()  # a front needs two metrics
    assert run([*command, "--metric", "latency,power", "--json"]) == 0
    assert "Pareto front" in page.read_text()
    moved = tmp_path / "moved.html"
    what_if = ["what-if", "resnet18", "--hardware", "a100", "--change", "fuse"]
    assert run([*what_if, "--html", str(moved)]) == 0
    assert '"moves":[[' in moved.read_text()
    assert run([*what_if, "--html", str(tmp_path / "none" / "x.html")]) == 2


@pytest.mark.parametrize(
    ("suffix", "start"),
    [("svg", b"<svg xmlns"), ("png", b"\x89PNG"), ("pdf", b"%PDF"), ("html", b"<html lang")],
)
@pytest.mark.parametrize(
    "command",
    [
        "compare yolov8n --hardware l4,t4,h100 --metric latency,power",
        "select yolov8n --hardware l4,t4,h100,coral-edge-tpu --latency 33ms --power 100W",
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
    command = "compare yolov8n --hardware l4,t4,h100,coral-edge-tpu --metric throughput,price"
    prices = "--price l4=2500 --price t4=900 --price h100=25000 --price coral-edge-tpu=70"
    assert run([*command.split(), *prices.split(), "-o", str(path)]) == 0
    text = path.read_text()
    assert "throughput against price" in text
    assert ">t4<" in text
    assert ">l4<" in text
    assert ">coral-edge-tpu<" not in text  # nothing is known of its throughput
    assert "(unknown: coral-edge-tpu)" in text


def test_static_arrows_start_where_ops_were():
    sides = what_if_sides("resnet18", "a100", ["precision=int8", "hardware=h200"])
    chart = advice_pictures.moved(*sides)
    before, after, _ = sides
    whole = chart.moves[0]
    assert whole.start[0] == pytest.approx(before.arithmetic_intensity)
    assert whole.end[1] == pytest.approx(after.flops / after.expected_time_s.value)
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
