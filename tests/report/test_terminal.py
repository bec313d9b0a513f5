"""Layout for terminals: columns that give way, lists, and text that is never read as markup."""

from __future__ import annotations

import pytest
from rich.cells import cell_len
from rich.text import Text

from gambrel.report import Options
from gambrel.report.blocks import Column
from gambrel.report.terminal import fit, hanging, line, listed, show, table

NARROW = Options(width=40)


def shown(*items: object, options: Options = NARROW) -> list[str]:
    return show([items], options).splitlines()  # type: ignore[list-item]


def _columns() -> list[Column]:
    return [
        Column(title="name", cells=("a" * 30, "b"), align="left", minimum=10),
        Column(title="kind", cells=("conv", "relu"), align="left", priority=2),
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


def test_the_most_important_of_the_shortened_columns_widens_first() -> None:
    columns = [
        Column(title="about", cells=("x" * 20,), minimum=5, priority=1),
        Column(title="name", cells=("y" * 20,), minimum=5),
    ]
    # 5 + 2 + 5 = 12; of 20 columns 8 are left over, all for the name.
    assert [(c.title, w) for c, w in fit(columns, 20)] == [("about", 5), ("name", 13)]


def test_a_column_without_content_is_left_out() -> None:
    note = Column(title="note", cells=("", ""), priority=1)
    kept = Column(title="must", cells=("", ""))
    assert [c.title for c, _ in fit([*_columns(), note, kept], 99)] == [
        *("name", "kind", "time", "must")
    ]


def test_table_lines() -> None:
    assert shown(table(_columns(), 16)) == [
        "name        time",
        "────────────────",
        "aaa…aaaaaa   1 s",
        "b           12 s",
    ]


def test_a_table_too_wide_for_the_terminal_keeps_its_figures() -> None:
    columns = [Column(title=f"figure {i}", cells=("123456789",)) for i in range(5)]
    head, rule, row = shown(table(columns, 40))
    # 5 * 9 + 4 * 2
    assert [cell_len(text) for text in (head, rule, row)] == [53, 53, 53]
    assert row.split() == ["123456789"] * 5


def test_wide_characters_are_aligned() -> None:
    columns = [
        Column(title="op", cells=("卷积", "e\u0301a", "conv"), align="left"),
        Column(title="n", cells=("1", "2", "3")),
    ]
    assert shown(table(columns, 40))[2:] == ["卷积  1", "e\u0301a    2", "conv  3"]


MARKUP = "[bold red]x[/] [link=http://a]y[/link] :warning: [/]"


def test_names_are_never_markup() -> None:
    colored = Options(width=200, color=True)
    column = Column(title=MARKUP, cells=(MARKUP,), align="left")
    blocks = [
        [table([column], 200), line(MARKUP), hanging([(MARKUP, MARKUP)], 60)],
        listed(MARKUP, [MARKUP]),
    ]
    text = show(blocks, colored)
    assert Text.from_ansi(text).plain.count(MARKUP) == 7
    assert "\x1b]8" not in text  # no hyperlink
    assert "31m" not in text  # nothing red
    assert "⚠" not in text


def test_control_characters_are_visible_in_every_part() -> None:
    evil = "a\x1b[2Jb\u202ec"
    column = Column(title=evil, cells=(evil,), align="left")
    text = show([[table([column], 80), line(evil), *listed(evil, [evil])]], Options(width=80))
    assert text.count("a\\x1b[2Jb\\u202ec") == 5
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_styles_change_nothing_but_colour() -> None:
    column = Column(title="bound", cells=("memory", "x"), align="left", styles=("memory", ""))
    colored = shown(table([column], 40), options=Options(width=40, color=True))
    plain = shown(table([column], 40))
    assert colored[2] == "\x1b[38;5;39mmemory\x1b[0m"
    assert colored[3] == "x"
    assert [Text.from_ansi(text).plain for text in colored] == plain


def test_listed() -> None:
    items = ["one two three four five six seven eight nine", "ten"]
    assert shown(*listed("Notes", items)) == [
        "Notes",
        "• one two three four five six seven",
        "  eight nine",
        "• ten",
    ]
    assert listed("Notes", []) == []


def test_hanging_folds_what_has_no_space() -> None:
    assert shown(hanging([("[1]", "see http://" + "x" * 60)], 4)) == [
        "[1] see",
        "    http://" + "x" * 29,
        "    " + "x" * 31,
    ]


def test_blocks_are_apart_and_empty_ones_left_out() -> None:
    assert show([[line("a")], [], [line("b"), line("c")]], NARROW) == "a\n\nb\nc\n"
    assert show([], NARROW) == ""


@pytest.mark.parametrize(
    ("name", "value"),
    [("NO_COLOR", "1"), ("FORCE_COLOR", "1"), ("COLUMNS", "12"), ("TERM", "dumb")],
)
def test_only_options_decide(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    words = line("one two three four ", ("five", "memory"))
    expected = [show([[words]], Options(color=color)) for color in (False, True)]
    monkeypatch.setenv(name, value)
    assert [show([[words]], Options(color=color)) for color in (False, True)] == expected
    assert expected[0] == "one two three four five\n"
