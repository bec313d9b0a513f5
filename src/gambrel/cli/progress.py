"""A progress bar on stderr while large files are read; none without a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
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


def _size(path: Path) -> int:
    """Bytes of a file; 0 for what the reader will refuse."""
    try:
        return file_size(path)
    except FileFormatError:
        return 0
