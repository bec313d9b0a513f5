"""Figures for papers: their size, their fonts, what is on them; the same bytes on every run."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import msgspec
import pytest

from gambrel.errors import InputError
from gambrel.report import Options, render
from gambrel.report.roofline_picture import of_analysis
from tests.report import samples

pytest.importorskip("matplotlib")

from matplotlib.colors import to_hex

COLUMN = Options(figure="column")


@pytest.mark.parametrize(("figure", "inches"), [("column", 3.3), ("page", 7.0)])
def test_width_is_that_of_the_paper(figure: str, inches: float) -> None:
    svg = str(bytes(render(samples.estimated(), "svg", Options(figure=figure))), "utf-8")
    width = re.search(r'<svg [^>]*width="([\d.]+)pt"', svg)
    assert width
    assert float(width[1]) == pytest.approx(72 * inches)
    pdf = bytes(render(samples.estimated(), "pdf", Options(figure=figure)))
    box = re.search(rb"/MediaBox \[ 0 0 ([\d.]+) ", pdf)
    assert box
    assert float(box[1]) == pytest.approx(72 * inches)


def test_fonts_are_inside() -> None:
    svg = str(bytes(render(samples.estimated(), "svg", COLUMN)), "utf-8")
    assert "<text" not in svg  # outlines
    pdf = bytes(render(samples.estimated(), "pdf", COLUMN))
    assert b"/FontFile2" in pdf  # TrueType
    assert b"/Type3" not in pdf


def test_the_same_on_every_run() -> None:
    for name in ("svg", "pdf"):
        first, second = (render(samples.estimated(), name, COLUMN) for _ in range(2))
        assert first == second


def test_roofs_in_use_carry_their_names_and_nothing_faint_is_drawn() -> None:
    from gambrel.report.plot_static import FIGURE_STYLES, figure

    picture = of_analysis(samples.estimated())
    drawn = figure([picture], FIGURE_STYLES["column"])
    said = {text.get_text() for text in drawn.axes[0].texts}
    assert {note.text for note in picture.notes if not note.faint} <= said
    assert not said & {note.text for note in picture.notes if note.faint}
    assert drawn.axes[0].get_title(loc="left") == ""


def test_golden(golden: object) -> None:
    picture = msgspec.to_builtins(of_analysis(samples.estimated()))
    golden("figure.json", json.dumps(picture, indent=1) + "\n")  # type: ignore[operator]


@pytest.mark.parametrize("style", ["screen", "column", "page"])
def test_each_style_is_drawn_as_before(style: str, golden: object) -> None:
    """What is drawn, in the units of the data: positions of pixels depend on fonts."""
    from gambrel.report.plot_static import FIGURE_STYLES, figure

    drawn = figure([of_analysis(samples.estimated())], FIGURE_STYLES[style])
    seen = {
        "inches": list(map(float, drawn.get_size_inches())),
        "axes": list(map(axes, drawn.axes)),
    }
    golden(f"figure_{style}.json", json.dumps(seen, indent=1) + "\n")  # type: ignore[operator]


def axes(one: Any) -> dict[str, object]:
    """The contents of a frame."""

    def short(values: Any) -> list[float]:
        return [float(f"{value:.4g}") for value in values]

    return {
        "limits": [short(one.get_xlim()), short(one.get_ylim())],
        "title": one.get_title(loc="left"),
        "labels": [one.get_xlabel(), one.get_ylabel()],
        "texts": [
            [t.get_text(), *short([*t.get_position(), t.get_fontsize()])]
            for t in one.texts
            if t.get_text()
        ],
        "lines": [
            [to_hex(line.get_color()), line.get_linewidth(), len(line.get_xdata())]
            for line in one.lines
        ],
        "marks": [
            [to_hex(c.get_facecolor()[0]) if len(c.get_facecolor()) else "", *short(c.get_sizes())]
            for c in one.collections
            if hasattr(c, "get_sizes")
        ],
    }


def test_names_of_roofs_keep_clear_of_dots() -> None:
    """In a column a character takes about 1.6 % of the width of the frame."""
    picture = of_analysis(samples.tiny())
    assert picture.x.ends is not None
    left, right = map(math.log, picture.x.ends)
    names = [note for note in picture.notes if "FLOP/s" in note.text and not note.faint]
    assert names
    for note in names:
        end = (math.log(note.at[0]) - left) / (right - left)
        for dot in picture.dots:
            x = (math.log(dot.at[0]) - left) / (right - left)
            above = 1 <= dot.at[1] / note.at[1] < 2
            assert not (above and end - 0.016 * len(note.text) < x < end), (note.text, dot.about)


def test_an_unknown_style_is_refused() -> None:
    with pytest.raises(InputError, match="figure='poster': must be one of screen, column, page"):
        Options(figure="poster")
