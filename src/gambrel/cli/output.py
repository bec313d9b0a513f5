"""Where results go: text to stdout, files beside and renamed, messages to stderr."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gambrel.errors import InputError

if TYPE_CHECKING:
    from gambrel.analysis.result import Analysis


def check_outputs(files: Sequence[Path], count: int, page: Path | None = None) -> None:
    """Refuses, before any work, a file that could not be written.

    Args:
        files: To be written.
        count: How many analyses they are to show.
        page: The one among them that is to be an HTML page.

    Raises:
        UnknownNameError: No format has that suffix.
        InputError: It is a folder or its folder does not exist, or the format shows one analysis
            only, or the page has the suffix of another format.
    """
    from gambrel.report import check_target, format_of

    for path in files:
        chosen = format_of(path)
        if path == page and chosen.name != "html":
            raise InputError(f"--html {path}: name a .html file; --output {path} is {chosen.name}.")
        if count > 1 and not chosen.several:
            raise InputError(f"{path}: this format shows one analysis, not {count}; use .html.")
        check_target(path)


def print_json(
    analyses: Sequence[Analysis],
    files: Sequence[Path],
    *,
    levels: bool = False,
    recommend: bool = False,
) -> None:
    """Prints one analysis as a JSON object, several as an array; nothing else on stdout."""
    from gambrel.report import Options, render, render_many

    options = Options(recommend=recommend)
    one = len(analyses) == 1
    text = render(analyses[0], "json", options) if one else render_many(analyses, "json", options)
    write_text(text if isinstance(text, str) else text.decode())
    save_all(analyses, files, levels=levels, recommend=recommend)


def emit(
    analyses: Sequence[Analysis],
    files: Sequence[Path],
    *,
    top: int,
    roofline: bool,
    recommend: bool,
    levels: bool = False,
) -> None:
    """Prints the tables, the chart and the recommendations that were asked for; writes files."""
    from gambrel.report import render, render_many, terminal_options

    options = terminal_options(sys.stdout, top=top)
    if len(analyses) > 1:
        write_text(str(render_many(analyses, "table", options)))
    for analysis in analyses:
        if len(analyses) == 1:
            write_text(str(render(analysis, "table", options)))
        if roofline:
            write_text(str(render(analysis, "roofline", options)))
        if levels:
            from gambrel.report.levels import render_levels

            write_text(render_levels(analysis, options))
        if recommend:
            from gambrel.advise.recommend import advise
            from gambrel.analysis.estimate.store import load
            from gambrel.report.advice import render_advice

            write_text(render_advice(advise(analysis, load()), options))
    save_all(analyses, files, levels=levels, recommend=recommend)


def save_all(
    analyses: Sequence[Analysis],
    files: Sequence[Path],
    *,
    levels: bool = False,
    recommend: bool = False,
) -> None:
    """Writes each file and says so on stderr; ``levels`` draws charts by memory level."""
    from gambrel.report import Options, write

    options = Options(levels=levels, recommend=recommend)
    for path in files:
        written = write(analyses[0] if len(analyses) == 1 else list(analyses), path, options)
        print(f"wrote {written}", file=sys.stderr)


def write_text(text: str) -> None:
    """Writes text to stdout with one final newline; what its encoding lacks becomes ``?``.

    Raises:
        InputError: It cannot be written, e.g. because the disk is full.
    """
    encoding = sys.stdout.encoding or "utf-8"
    try:
        sys.stdout.write(text.encode(encoding, "replace").decode(encoding).rstrip("\n") + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader went away (`gambrel ... | head`); files that were asked for are still written.
        _discard_stdout()
    except OSError as error:
        _discard_stdout()
        raise InputError(f"cannot write to standard output: {error.strerror}.") from None


def _discard_stdout() -> None:
    """What is left to write goes nowhere; Python would complain about it at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def leave(held: bool | None) -> None:
    """Ends the command as `gambrel check` does: 1 where it does not hold, 3 where that is unknown.

    Raises:
        typer.Exit: In these two cases.
    """
    import typer

    if not held:
        raise typer.Exit(3 if held is None else 1)


def json_text(value: object) -> str:
    """A record, or records in lists and dicts, as indented JSON."""
    import msgspec

    return msgspec.json.format(msgspec.json.encode(value, enc_hook=_plain), indent=2).decode()


def _plain(value: object) -> object:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    raise TypeError(f"{type(value).__name__} has no JSON form")


def progress(done: int, total: int, name: str) -> None:
    """Draws a bar on stderr, over the one before."""
    width = 24
    filled = width * done // max(total, 1)
    bar = "#" * filled + "." * (width - filled)
    print(f"\r[{bar}] {name:<24}", end="", file=sys.stderr, flush=True)
