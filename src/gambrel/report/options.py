"""What a reader may choose about a report; nothing here changes a number."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TextIO

from gambrel.errors import InputError

#: Narrower terminals get lines of this width; nothing sensible fits into less.
MIN_WIDTH = 40

#: Where pictures go.
FIGURES = ("screen", "column", "page")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Choices that formats share; a format ignores what does not apply to it.

    Attributes:
        width: Columns of the terminal (table and roofline).
        height: Rows of the terminal roofline, labels included.
        color: Whether to write ANSI colours (table and roofline).
        piped: Whether another program reads it: lists of the catalog are then cut nowhere.
        top: How many rows a table lists; 0 lists all.
        verbose: Whether to show what is folded: figures, definitions, assumptions, provenance.
        roofline: Whether the chart stands before the tables.
        levels: Whether to show the traffic of each memory level, in tables and charts.
        levels_left: Whether that traffic was left out because nothing but its name is shown.
        recommend: Whether to list changes with their predicted gain; pages of small models do so
            in any case.
        brief: Whether a page leaves out what takes longer than its answer: advice, pictures.
        on_page: Whether it is read on a page, which shows all rows and has no options to type.
        figure: Where pictures go: ``"screen"``, or on paper over one ``"column"`` (3.3 in) or the
            ``"page"`` (7 in).
        title: Replaces the title of a chart or page; None takes "model on device".
        commands: How to ask the same again, for a page: ``"shell"`` and ``"python"``.
    """

    width: int = 80
    height: int = 24
    color: bool = False
    piped: bool = False
    top: int = 15
    verbose: bool = False
    roofline: bool = False
    levels: bool = False
    levels_left: bool = False
    recommend: bool = False
    brief: bool = False
    on_page: bool = False
    figure: str = "screen"
    title: str | None = None
    commands: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.top < 0:
            raise InputError(f"top={self.top}: must be 0 (all) or more.")
        if self.figure not in FIGURES:
            raise InputError(f"figure={self.figure!r}: must be one of {', '.join(FIGURES)}.")
        if self.height < 10:
            raise InputError(f"height={self.height}: a roofline needs at least 10 rows.")

    @property
    def columns(self) -> int:
        """The width to fill: never less than `MIN_WIDTH`."""
        return max(self.width, MIN_WIDTH)


def wants_color(stream: TextIO, environ: Mapping[str, str] | None = None) -> bool:
    """Whether ``stream`` should get colour: a terminal, and nobody said no.

    ``NO_COLOR`` (https://no-color.org) wins over ``FORCE_COLOR``, which wins over the stream.
    """
    env = os.environ if environ is None else environ
    if env.get("NO_COLOR") or env.get("TERM") == "dumb":
        return False
    return bool(env.get("FORCE_COLOR")) or stream.isatty()


def terminal_options(stream: TextIO, *, top: int = 15, **more: bool) -> Options:
    """Options that suit ``stream``: its width and height where it is a terminal, 80 columns else.

    Lists of the catalog take more than 80 where they need it.

    ``COLUMNS`` overrides the width, as everywhere. ``more`` are further fields of `Options`.
    """
    size = shutil.get_terminal_size((80, 32))
    return Options(
        width=size.columns,
        height=min(max(size.lines - 4, 16), 32),
        color=wants_color(stream),
        piped=not stream.isatty() and "COLUMNS" not in os.environ,
        top=top,
        **more,  # type: ignore[arg-type]
    )
