"""Text cells: widths, shortening, columns that give way."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gambrel.report.text import (
    Column,
    bar,
    beside,
    clean,
    display_width,
    fit,
    paint,
    shorten,
    shorten_path,
    strip_color,
    table,
)


@pytest.mark.parametrize(
    ("text", "width"),
    [("abc", 3), ("卷积", 4), ("e\u0301", 1), ("", 0), ("★", 1)],
)
def test_display_width(text: str, width: int) -> None:
    assert display_width(text) == width


@pytest.mark.parametrize(
    ("text", "width", "expected"),
    [
        ("encoder", 7, "encoder"),
        ("abcdefghij", 7, "ab…ghij"),
        ("abc", 1, "…"),
        ("abc", 0, ""),
        ("卷积层归一", 5, "…归一"),
    ],
)
def test_shorten_keeps_both_ends(text: str, width: int, expected: str) -> None:
    assert shorten(text, width) == expected


@given(st.text(max_size=60), st.integers(1, 40))
def test_shorten_never_exceeds(text: str, width: int) -> None:
    assert display_width(shorten(text, width)) <= width


@given(st.text(max_size=60))
def test_clean_leaves_nothing_that_moves_the_cursor(text: str) -> None:
    shown = clean(text)
    assert "\x1b" not in shown
    assert "\n" not in shown
    assert "\u202e" not in shown


def test_clean_shows_what_was_there() -> None:
    assert clean("a\x1b[31mb") == "a\\x1b[31mb"
    assert clean("a\u202eb") == "a\\u202eb"
    assert clean("conv1 × 2") == "conv1 × 2"


def test_paint_is_undone_by_strip_color() -> None:
    painted = paint("memory", "memory", True)
    assert painted != "memory"
    assert strip_color(painted) == "memory"
    assert paint("memory", "memory", False) == "memory"


@pytest.mark.parametrize(
    ("share", "expected"),
    [(1.0, "████"), (0.5, "██"), (0.125, "▌"), (0.0, ""), (None, ""), (1e-9, "▏"), (7.0, "████")],
)
def test_bar(share: float | None, expected: str) -> None:
    assert bar(share, 4) == expected


def _columns() -> list[Column]:
    return [
        Column(title="name", cells=("a" * 30, "b"), align="<", minimum=10),
        Column(title="kind", cells=("conv", "relu"), align="<", priority=2),
        Column(title="time", cells=("1 s", "12 s"), priority=1),
    ]


def test_columns_appear_by_priority() -> None:
    # name needs at least 10; + 2 + 4 for time = 16; + 2 + 4 for kind = 22.
    assert [c.title for c, _ in fit(_columns(), 15)] == ["name"]
    assert [(c.title, w) for c, w in fit(_columns(), 16)] == [("name", 10), ("time", 4)]
    assert [c.title for c, _ in fit(_columns(), 22)] == ["name", "kind", "time"]
    # 42 = 30 + 2 + 4 + 2 + 4: nothing is shortened any more, and nothing grows beyond.
    assert [w for _, w in fit(_columns(), 42)] == [30, 4, 4]
    assert [w for _, w in fit(_columns(), 99)] == [30, 4, 4]


def test_table_lines() -> None:
    assert table(_columns(), 16) == [
        "name        time",
        "────────────────",
        "aaa…aaaaaa   1 s",
        "b           12 s",
    ]


def test_beside_ignores_colour_codes() -> None:
    left = [paint("ab", "bold", True), "c"]
    lines = beside(left, ["x", "y", "z"], 4)
    assert [strip_color(line) for line in lines] == ["ab  x", "c   y", "    z"]


@pytest.mark.parametrize(
    ("path", "width", "expected"),
    [
        ("encoder.layer.0.output", 22, "encoder.layer.0.output"),
        ("encoder.layer.0.output", 20, "e.layer.0.output"),
        ("encoder.layer.10.output", 15, "e.l.10.output"),
        ("model.layers.*.mlp.gate_proj", 20, "m.l.*.mlp.gate_proj"),
        ("model.layers.3.mlp.gate_proj", 12, "m.l…ate_proj"),
        ("", 5, ""),
    ],
)
def test_shorten_path_keeps_numbers_and_the_end(path: str, width: int, expected: str) -> None:
    assert shorten_path(path, width) == expected


@given(st.text(alphabet="ab.0*卷", max_size=50), st.integers(1, 30))
def test_shorten_path_never_exceeds(path: str, width: int) -> None:
    assert display_width(shorten_path(path, width)) <= width
