"""A progress bar on stderr while large files are read; none without a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from gambrel.errors import FileFormatError
from gambrel.fileio import file_size

#: Bytes from which reading takes long enough to show it.
_LARGE: Final = 50 << 20


@contextmanager
def watched(files: Sequence[Path]) -> Iterator[None]:
    """Shows how far the files have been read while the block runs."""
    sizes = {path: _size(path) for path in files}
    if sum(sizes.values()) < _LARGE or not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn

    from gambrel.traces.source import watching

    columns = ("reading", BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=sum(sizes.values()))
        read: dict[Path, int] = {}

        def told(path: Path, done: int) -> None:
            read[path] = done
            bar.update(task, completed=sum(read.values()))

        with watching(told):
            yield


@contextmanager
def counted(what: str) -> Iterator[Callable[[int, int, int], None] | None]:
    """Shows on stderr how many of a known number are done, the rate and the time left.

    Args:
        what: Things that are counted.

    Yields:
        What is told (done, in all, done by an earlier run); None without a terminal.
    """
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        BarColumn(),
        TextColumn("{task.completed:,.0f} of {task.total:,.0f} " + what),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None, rate="")
        began = time.monotonic()

        def told(done: int, total: int, earlier: int) -> None:
            spent = max(time.monotonic() - began, 1e-3)
            rate = f"{(done - earlier) / spent:,.0f}/s"
            bar.update(task, completed=done, total=total, rate=rate)

        yield told


def _size(path: Path) -> int:
    """Bytes of a file; 0 for what the reader will refuse."""
    try:
        return file_size(path)
    except FileFormatError:
        return 0
