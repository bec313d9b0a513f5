"""A progress bar on stderr while large files are read; none without a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

#: Bytes from which reading takes long enough to show it.
_LARGE: Final = 50 << 20


@contextmanager
def watched(files: Sequence[Path]) -> Iterator[None]:
    """Shows how far the files have been read while the block runs."""
    sizes = {path: path.stat().st_size for path in files if path.is_file()}
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
