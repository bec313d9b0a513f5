"""Where results go: text to stdout, files beside and renamed, messages to stderr."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import msgspec

from gambrel.errors import InputError

if TYPE_CHECKING:
    from gambrel.analysis.question import Question
    from gambrel.report.options import Options


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """What to print and to write of a result.

    Attributes:
        as_json: JSON on stdout, and nothing else.
        html: A page to write.
        output: Further files; the suffix chooses the format.
        more: Choices of `gambrel.report.options.Options`.
    """

    as_json: bool = False
    html: Path | None = None
    output: Sequence[Path] = ()
    more: dict[str, Any]

    @classmethod
    def of(
        cls,
        as_json: bool = False,
        html: Path | None = None,
        output: Sequence[Path] = (),
        write: Sequence[Path] = (),
        **more: Any,
    ) -> Shown:
        """From the options of a command; the rest are choices of the report."""
        return cls(as_json=as_json, html=html, output=(*output, *write), more=more)

    @property
    def files(self) -> list[Path]:
        """Everything that is to be written."""
        return [*([self.html] if self.html else []), *self.output]

    @property
    def shows_levels(self) -> bool:
        """Whether the traffic of each memory level is anywhere in what is printed or written."""
        asked = any(self.more.get(name) for name in ("levels", "verbose"))
        return asked or self.as_json or bool(self.files)

    def check(self, record: type) -> Shown:
        """Refuses, before any work, a file that the result could not be written to.

        Args:
            record: Class of the result that is to come.

        Raises:
            GambrelError: Its suffix, its folder, or the result has no such format.
        """
        from gambrel.report import check_file

        for path in self.files:
            check_file(path, record, "html" if path == self.html else "")
        return self

    def emit(self, record: object) -> None:
        """Prints the result and writes the files that were asked for."""
        from gambrel.report import content_of, render, replace_file

        options = self.options()
        # What cannot be drawn is refused before anything is said or written.
        drawn = [(path, content_of(record, path, options)) for path in self.files]
        write_text(str(render(record, "json" if self.as_json else "table", options)))
        for path, content in drawn:
            replace_file(path, content)
            wrote(path)

    def options(self) -> Options:
        """Width and colour of the terminal with the choices of the reader."""
        import dataclasses

        from gambrel.cli.invocation import again
        from gambrel.report.options import terminal_options

        made = dataclasses.replace(terminal_options(sys.stdout), **self.more)
        return dataclasses.replace(made, levels_left=not self.shows_levels, commands=again())


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
        _discard(sys.stdout)
    except OSError as error:
        _discard(sys.stdout)
        raise InputError(f"cannot write to standard output: {error.strerror}.") from None


def wrote(what: object) -> None:
    """Says on stderr what was written; where its reader went away, the work goes on."""
    try:
        print(f"wrote {what}", file=sys.stderr, flush=True)
    except BrokenPipeError:
        _discard(sys.stderr)


def _discard(stream: TextIO) -> None:
    """What is left to write goes nowhere; Python would complain about it at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def exit_code(held: bool | None) -> int:
    """As `gambrel check`: 1 where it does not hold, 3 where that is unknown."""
    return {True: 0, False: 1, None: 3}[held]


def progress(done: int, total: int, name: str) -> None:
    """Draws a bar on stderr, over the one before."""
    width = 24
    filled = width * done // max(total, 1)
    bar = "#" * filled + "." * (width - filled)
    print(f"\r[{bar}] {name:<24}", end="", file=sys.stderr, flush=True)


def with_points(question: Question, output: Sequence[Path]) -> tuple[Question, list[Path]]:
    """The question with the file that takes its points as they are computed, and other files.

    Raises:
        InputError: Several files for the points.
    """
    import dataclasses

    from gambrel.engine.save import is_stream

    streams = [target for target in output if is_stream(target)]
    if len(streams) > 1:
        raise InputError("a sweep writes its points to one of .parquet, .csv and .jsonl.")
    if streams:
        question = dataclasses.replace(question, save=str(streams[0]))
    return question, [target for target in output if target not in streams]
