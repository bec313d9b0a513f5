"""Names as text: widths, shortening, control characters, bars."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gambrel.report.text import bar, clean, display_width, shorten, shorten_path


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
        # The mark at the end belongs to the letter before it and takes no column.
        ("abcdefghije\u0301", 7, "ab…hije\u0301"),
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


@pytest.mark.parametrize(
    ("share", "expected"),
    [(1.0, "████"), (0.5, "██"), (0.125, "▌"), (0.0, ""), (None, ""), (1e-9, "▏"), (7.0, "████")],
)
def test_bar(share: float | None, expected: str) -> None:
    assert bar(share, 4) == expected


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
