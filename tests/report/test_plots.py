"""The drawers of the chart description: they place what it says, where it says."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable

import pytest
from rich.cells import cell_len
from rich.text import Text

from gambrel.analysis.result import Analysis
from gambrel.report import Options, render
from gambrel.report.chart import describe
from gambrel.report.plot_interactive import plot
from gambrel.report.plot_static import figure
from gambrel.report.roofline_picture import of_analysis
from tests.report import samples

ALL = (samples.tiny, samples.hostile, samples.empty, samples.unknown, samples.large)
SVG = "{http://www.w3.org/2000/svg}"


def terminal(analysis: Analysis, **options: object) -> str:
    return str(render(analysis, "roofline", Options(**options)))  # type: ignore[arg-type]


@pytest.mark.parametrize("width", [80, 200])
def test_terminal_golden(width: int, golden: Callable[[str, str], None]) -> None:
    golden(f"roofline_{width}.txt", terminal(samples.tiny(), width=width))


@pytest.mark.parametrize("build", ALL)
@pytest.mark.parametrize("width", [40, 80, 200])
def test_terminal_fits(build: Callable[[], Analysis], width: int) -> None:
    shown = terminal(build(), width=width, height=20)
    assert max(map(cell_len, shown.splitlines())) <= width
    assert "★ whole model" in shown


def test_terminal_without_colour_says_the_same() -> None:
    plain, colored = terminal(samples.tiny()), terminal(samples.tiny(), color=True)
    assert "\x1b" not in plain
    assert "\x1b" in colored
    assert [Text.from_ansi(x).plain for x in colored.splitlines()] == plain.splitlines()


def test_terminal_labels() -> None:
    shown = terminal(samples.tiny())
    for label in ("matrix fp16 100 TFLOP/s", "DRAM 1 TB/s", "L2 5 TB/s", "▲100", "100 T"):
        assert label in shown
    assert "left edge: no work" in shown
    assert "right edge: no traffic" in shown


def test_terminal_explains_only_what_occurs() -> None:
    shown = terminal(samples.empty())
    assert "memory-bound" not in shown
    assert "left edge" not in shown


def svg_texts(analysis: Analysis) -> list[str]:
    root = ET.fromstring(str(render(analysis, "svg")))
    return ["".join(node.itertext()) for node in root.iter(f"{SVG}text")]


def test_svg_golden_texts(golden: Callable[[str, str], None]) -> None:
    golden("chart_svg_texts.txt", "\n".join(svg_texts(samples.tiny())) + "\n")


def test_svg_is_the_same_on_every_run() -> None:
    first, second = (str(render(samples.tiny(), "svg")) for _ in range(2))
    assert first == second
    assert not re.search(r"20\d\d-\d\d-\d\dT", first)  # no date of creation


def test_svg_escapes_and_stays_well_formed() -> None:
    assert any("</script><img" in text for text in svg_texts(samples.hostile()))
    assert "<script" not in str(render(samples.hostile(), "svg"))


def test_every_drawer_places_what_the_chart_says() -> None:
    chart = describe(samples.tiny())
    axes = figure([of_analysis(samples.tiny())]).axes[0]
    assert axes.get_xlim() == pytest.approx(chart.x_range)
    assert axes.get_ylim() == pytest.approx(chart.y_range)
    drawn = {tuple(xy) for c in axes.collections for xy in c.get_offsets().tolist()}
    placed = [p for p in chart.points if not p.margin]
    assert {(p.arithmetic_intensity, p.flop_per_s) for p in placed} <= drawn
    assert (chart.total.arithmetic_intensity, chart.total.flop_per_s) in drawn
    assert len(drawn) <= len(chart.points) + 1
    heights = [line.get_ydata()[0] for line in axes.lines]
    assert all(r.peak_flop_per_s in heights for r in chart.roofs)
    shown = {xy for t in plot(samples.tiny()).data for xy in zip(t.x, t.y, strict=True)}
    assert drawn <= shown


def test_svg_dots_say_what_they_are_and_lie_on_their_roof() -> None:
    """In the frame 74 to 710 by 514 to 34 pixels, a dot between decades lies between grid lines."""
    root = ET.fromstring(str(render(samples.tiny(), "svg")))
    marks = [e for e in root.iter() if e.find(f"{SVG}title") is not None]
    titles = [m.findtext(f"{SVG}title") or "" for m in marks]
    assert any(t.startswith("layer1.*.conv2\nconvolution") for t in titles)
    assert any("matrix fp16 100 TFLOP/s: datasheet" in t for t in titles)
    for mark in root.iter(f"{SVG}circle"):
        assert 74 <= float(mark.attrib["cx"]) <= 736
        assert 34 <= float(mark.attrib["cy"]) <= 514


@pytest.mark.parametrize("build", ALL)
@pytest.mark.parametrize(("name", "start"), [("png", b"\x89PNG\r\n"), ("pdf", b"%PDF-1")])
def test_pictures(build: Callable[[], Analysis], name: str, start: bytes) -> None:
    content = render(build(), name)
    assert isinstance(content, bytes)
    assert content.startswith(start)


def test_pdf_has_fonts_not_bitmaps() -> None:
    content = render(samples.tiny(), "pdf")
    assert isinstance(content, bytes)
    assert b"/TrueType" in content or b"/FontFile2" in content or b"/CIDFontType2" in content
    assert b"/Subtype /Image" not in content


def test_a_script_without_glyphs_is_no_error() -> None:
    named = samples.build(name="卷积网络 $x$")
    assert sum("卷积网络 $x$" in text for text in svg_texts(named)) == 1
    assert render(named, "png")


def test_unknown_kinds_beyond_the_legend_are_counted() -> None:
    rows = tuple(
        samples.Row(name=f"op{i}", kind=f"kind{i}", vector=9, read=100 - i) for i in range(14)
    )
    assert "5 more kinds" in svg_texts(samples.build(rows))


@pytest.mark.parametrize("build", ALL)
def test_interactive_is_json(build: Callable[[], Analysis]) -> None:
    drawn = json.loads(plot(build()).to_json())
    assert drawn["layout"]["xaxis"]["type"] == drawn["layout"]["yaxis"]["type"] == "log"


def test_interactive_has_a_legend_entry_for_each_kind() -> None:
    drawn = plot(samples.tiny(), "mine").to_plotly_json()
    shown = [t["name"] for t in drawn["data"] if t.get("showlegend", True)]
    # The one copy has no work: it is the mark of such ops.
    kinds = [kind for kind in describe(samples.tiny()).kinds if kind != "copy"]
    assert shown == [*kinds, "whole model", "without FLOPs"]
    assert drawn["layout"]["title"]["text"] == "mine"


def test_interactive_points_and_hover() -> None:
    traces = {t["name"]: t for t in plot(samples.tiny()).to_plotly_json()["data"]}
    conv = traces["convolution"]
    assert sorted(conv["x"]) == pytest.approx([33.3333, 118.0, 231.0], abs=1e-3)
    assert traces["without FLOPs"]["marker"]["symbol"] == ["circle-open"]
    assert "1 op without FLOPs" in traces["without FLOPs"]["text"][0]
    hover = conv["text"][0]
    for part in ("layer1.*.conv2", "924 MFLOP", "4 MB", "231 FLOP/byte", "9.24 µs", "28.7%"):
        assert part in hover


def test_interactive_escapes() -> None:
    text = plot(samples.hostile()).to_json()
    assert "<script" not in text
    assert "<img" not in text
    assert "\\u003cscript" not in text
